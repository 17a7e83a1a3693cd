"""Post-processing of what the gate let out. Zone: RELEASED."""
