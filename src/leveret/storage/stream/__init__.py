"""Streams: append-only logs with offsets, read by many without being emptied.

files/        streams in files: segments, their indexes, recovery, repair and verification
postgres/     streams in PostgreSQL: partitions as tables, with the calls of a directory
appender.pyx  the end of a stream in memory: records become blocks here, before they are written
blocks.pyx    the bytes of a block: the records of a stream that were written together, never changed afterwards
columns.pyx   blocks as columns: the records of a range of offsets, packed for programs that compute on them
directory.py  where the partitions of streams lie: a directory each
index.py      the index of a segment: a row for some of its blocks
log.py        the log of one partition of a stream: appended to, committed, read and cut off at its old end
options.py    what can be chosen about a stream
pieces.py     pieces of a log as they lie in its files: whole blocks, which clients decode
producers.py  de-duplication by producer: the last sequence number of each, kept with the log
reader.py     reads a stream from an offset on, in large pieces, one after the other
recorder.pyx  takes the messages of a stream: chooses the partition of each and appends it there
sealing.py    encryption of a stream at rest: AES-256-GCM over the records of each block; an index is a sealed box
starts.py     where a reader starts: first, last, next, an offset, a time, or so long ago
store.py      all streams of a broker: opened with it, committed together with its journal, retained, removed
"""
