"""The command line: one file per command, thin. Heavy libraries are imported inside the commands."""
