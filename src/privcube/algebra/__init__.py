"""Pure numpy on axis numbers: the lattice of tables, residual transforms and closed-form budgets. Zone: PUBLIC."""
