"""What is written down: spec.toml and plan.json, read warily and written exactly. Zone: PUBLIC."""
