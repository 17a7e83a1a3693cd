"""Pure numpy: the lattice of tables, residual transforms, least squares. Knows no names, only axes. Zone: PUBLIC."""
