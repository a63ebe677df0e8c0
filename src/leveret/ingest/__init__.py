"""Bulk ingest: batches of messages that are published as a whole and once: staged, committed, rolled forward.

cells.pyx        columns of a piece where they lie: checked once as a whole
commit_log.py    the commit log of sinks: which batches were decided on, and how far each is published
publishing.py    rows into queues: the checks before a batch is decided on, and the publishing after it
quota.py         quotas of staged pieces: bytes and files of one sink, of one user and of all of them
roll_forward.py  publishing a batch that was decided on: chunk after chunk
row_groups.py    pieces: rows on their way from a task to the server, by column
rows.py          rows of a piece as messages: where each goes, and what it carries
sinks.py         the verbs on sinks: stage, commit, abort, delete; in the event loop of a server
staging.py       staged pieces: files in a directory of their own, or blobs of a shard
"""
