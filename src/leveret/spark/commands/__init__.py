"""What the commands `leveret pipeline ...` do: one file for each, found by its name.

archive.py    `leveret pipeline archive`: sealed segments become Parquet
check.py      `leveret pipeline check`: compares what the broker counted with its history
context.py    what every command gets and gives: a session when it asks for one, the line of progress
generate.py   `leveret pipeline generate`: a workload that looks real, as an archive of events
lifecycle.py  `leveret pipeline lifecycle`: one row for each message in each queue, as Parquet
plan.py       `leveret pipeline plan`: capacity for a workload that is given, or observed
redrive.py    `leveret pipeline redrive`: messages that wait in a queue, mostly dead letters
rehearse.py   `leveret pipeline rehearse`: a past period for other consumers, in a virtual host of its own
replay.py     `leveret pipeline replay`: messages of the archive or journal are published again
report.py     `leveret pipeline report`: what happened in the queues, as tables, a page with plots, and a summary
"""
