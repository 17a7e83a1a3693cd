"""What a user declares, and what a plan consists of. Zone: PUBLIC."""
