"""`leveret doctor`: what is in a data directory and why, without a server and without changing a byte.

cluster.py      a cluster, asked of the node that has a data directory
command.py      `leveret doctor`: explain a data directory
examination.py  one examination of a data directory: facts about all that is in it, and what to do about them
log.py          the log of a directory: its segments, what lives in them, and which queues hold the oldest ones
"""
