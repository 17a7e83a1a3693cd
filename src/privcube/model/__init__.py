"""The nouns a user declares and a plan is made of. Zone: PUBLIC."""
