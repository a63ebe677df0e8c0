"""Streams in PostgreSQL: partitions as tables, with the calls of a directory."""
