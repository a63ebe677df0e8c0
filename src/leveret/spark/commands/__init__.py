"""What the commands `leveret pipeline ...` do: one file for each, found by its name."""
