"""The artifact, a folder to publish: its files, how they are written, opened and verified. Zone: RELEASED."""
