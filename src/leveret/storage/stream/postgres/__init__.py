"""Streams in PostgreSQL: partitions as tables, with the calls of a directory.

directory.py  streams in the tables of a shard: their partitions, and what is left of those that are gone
pages.py      bytes of segments in tables, as far as they are in memory
"""
