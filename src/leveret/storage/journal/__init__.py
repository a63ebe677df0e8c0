"""Commit batches appended once and durable before they are confirmed.

files/               the journal in files: a data directory with segments, their recovery and their verification
postgres/            the journal in PostgreSQL: the tables of a shard, its owner epoch, and recovery from rows
checkpoint.py        checkpoints: the whole state at one position of the log
columns.pyx          walking through the commit batches of a segment, and their entries as columns, for the pipeline
commit.py            group commit: whatever was appended while the last sync ran is the next commit batch
entries.pyx          reading commit batches: whether one is whole, and its entries
events.pyx           what only history needs, until it goes behind the other entries of a commit batch
history.py           History: segments that compaction has taken out of the log, kept for the pipeline
journal.pyx          the journal on files, as the core sees it: what it appends, counts and reads back
postgres_figures.py  figures of the connections to PostgreSQL
records.pyx          the bytes of a commit batch: one group commit, written once and never changed
store.py             a log, open: the journal, its commits, checkpoints and compaction, wherever its segments lie
"""
