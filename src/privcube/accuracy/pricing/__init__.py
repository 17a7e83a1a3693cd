"""Parts of the second price of a plan (`privcube.accuracy.privacy`). Zone: PUBLIC."""
