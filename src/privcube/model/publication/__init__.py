"""What a publisher says about a release, in words: titles, descriptions, labels. Zone: PUBLIC."""
