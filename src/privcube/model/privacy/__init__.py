"""Guarantees, how they convert and how they add up. Zone: PUBLIC."""
