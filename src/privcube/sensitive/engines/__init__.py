"""One file, one engine: each counts records where they are. Zone: SENSITIVE."""
