"""The journal in files: a data directory with segments, their recovery and their verification.

meta.py      META: the identity of a data directory, and its keys
recovery.py  recovery: from the files to the state that was durable
segments.py  segments: the files of the log, and reading single records back from them
store.py     a data directory, open: the lock on it, and a log in segment files
verify.py    a full check of a data directory that no process has open
writer.py    puts sealed batches into segment files: the file side of a commit, one caller at a time
"""
