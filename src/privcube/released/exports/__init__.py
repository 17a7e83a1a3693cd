"""Tables of a release as files for other programs, one module per format. Zone: RELEASED."""
