"""The command line: `leveret ...`."""
