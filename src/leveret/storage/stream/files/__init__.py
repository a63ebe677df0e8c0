"""Streams in files: segments, their indexes, recovery, repair and verification."""
