"""Measures: grids, the parts of records, and what is added up. Zone: PUBLIC."""
