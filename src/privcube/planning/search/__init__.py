"""The search for groups and bundles under a pure guarantee. Zone: PUBLIC."""
