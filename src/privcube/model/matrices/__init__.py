"""Groups of explicit whole-number matrices, and what they cost. Zone: PUBLIC."""
