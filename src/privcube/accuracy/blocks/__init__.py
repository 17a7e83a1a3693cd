"""Plans with blocks: matrices over some attributes times Helmert rows of the others. Zone: PUBLIC."""
