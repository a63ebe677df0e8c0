"""What is durable: the journal, streams, large bodies, and encryption at rest.

journal/       commit batches appended once and durable before they are confirmed
stream/        streams: append-only logs with offsets, read by many without being emptied
blobs.py       large bodies: kept beside the log, in a directory or an object store
disk.py        the file system as the journal uses it: all that can fail, tear or be lost goes through here
encryption.py  encryption at rest: AES-256-GCM with a key of its own for each segment, checkpoint, index
options.py     what can be chosen about a journal and about streams
segments.py    what segments of the journal and of streams have in common, whatever lies in them
"""
