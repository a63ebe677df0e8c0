"""`leveret doctor`: what is in a data directory and why, without a server and without changing a byte.

advice.py       what to do about what was found: a table of questions, the most pressing ones first
cluster.py      a cluster, asked of the node that has a data directory
command.py      `leveret doctor`: explain a data directory
disk.py         a directory that is only looked at: whatever would change it does nothing
examination.py  one examination of a data directory: facts about all that is in it, and what to do about them
log.py          the log of a directory: its segments, what lives in them, and which queues hold the oldest ones
report.py       an examination for people: a few short tables
sizes.py        what takes how much room, by kind; a table says what each name in a data directory is
streams.py      the streams of a directory: every partition with its segments
tls.py          what to do about the revocation lists that the options of a server name
"""
