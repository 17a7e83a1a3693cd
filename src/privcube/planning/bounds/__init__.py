"""Lower bounds: on any additive noise, and on strategies that need not be worked out. Zone: PUBLIC."""
