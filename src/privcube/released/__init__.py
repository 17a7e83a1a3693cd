"""Post-processing of the noisy answers that the gate releases. Zone: RELEASED."""
