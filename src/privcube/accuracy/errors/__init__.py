"""What error bars are made of: the weights that recovery gives to rows, and the moments of bundles. Zone: PUBLIC."""
