"""Estimates that honor numbers known beforehand: least squares, conditioned on them. Zone: PUBLIC."""
