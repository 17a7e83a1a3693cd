"""The artifact, a folder to publish: its files, and how to write, open and verify them. Zone: RELEASED."""
