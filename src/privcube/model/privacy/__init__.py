"""Privacy guarantees, their conversion and their composition. Zone: PUBLIC."""
