"""One file, one command."""
