"""Streams: append-only logs with offsets, read by many without being emptied."""
