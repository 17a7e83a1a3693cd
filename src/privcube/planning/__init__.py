"""Budgets, predicted accuracy and the choice of a strategy; decided before any data is read. Zone: PUBLIC."""
