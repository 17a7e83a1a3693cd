"""The page of a release: one file, index.html, that people read in a browser. Zone: RELEASED."""
