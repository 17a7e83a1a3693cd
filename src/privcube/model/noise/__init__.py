"""Noise on several groups at once: the laws of bundles, and what an exchange of two records costs. Zone: PUBLIC."""
