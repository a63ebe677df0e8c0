"""Streams in files: segments, their indexes, recovery, repair and verification.

foreign_log.py  a log that another process may be writing to, as far as it is written
recovery.py     opening a stream: from its files to what was durable, and a last segment that can be appended to
resealing.py    encrypting a segment of a stream anew, by the first key that was given, while it may be read
salvage.py      repairing a log: what is damaged is left out, and everything else keeps its offset
segments.py     segments: the files of a stream, each with an index beside it
writer.py       puts blocks into segment files: the file side of a commit, one caller at a time
"""
