"""The checks of `privcube verify` that compare numbers, and the folder that they look at. Zone: RELEASED."""
