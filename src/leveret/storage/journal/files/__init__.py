"""The journal in files: a data directory with segments, their recovery and their verification.

meta.py      META: the identity of a data directory, and its keys
recovery.py  recovery: from the files to the state that was durable; a full check of a directory that is not open
segments.py  segments: the files of the log, and reading single records back from them
store.py     a data directory, open: the lock on it, and a log that is written to segment files
"""
