"""A search for the best groups and bundles under a pure guarantee. Zone: PUBLIC."""
