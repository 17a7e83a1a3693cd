"""A release as people read it: numbers as published, labels, plots, pages. Zone: RELEASED."""
