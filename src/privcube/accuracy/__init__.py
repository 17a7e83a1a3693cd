"""What a plan promises: how its tables are recovered, how far off they may be, what they cost. Zone: PUBLIC."""
