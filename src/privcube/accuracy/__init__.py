"""What a plan promises: how tables are recovered, how accurate they are, and what they cost. Zone: PUBLIC."""
