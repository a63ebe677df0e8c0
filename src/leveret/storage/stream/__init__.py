"""Streams: append-only logs with offsets, read by many without being emptied.

blocks.pyx    the bytes of a block: made of records that are appended, read as objects or as columns
index.py      the index of a segment: a row for some of its blocks, and the last number of each producer
log.py        the log of one partition of a stream: appended to, committed, read and cut off at its old end
postgres.py   streams in PostgreSQL: partitions as tables, with the calls of a directory
reader.py     reads a stream from an offset or a time on, in large pieces, one after the other
recorder.pyx  takes the messages of a stream: chooses the partition of each and appends it there
recovery.py   opening a stream: from its files to what was durable; repair and verification
segments.py   segments: the files of a stream, each with an index beside it
store.py      all streams of a broker: opened with it, committed together with its journal, retained, removed
"""
