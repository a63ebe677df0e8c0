"""The Spark integration: the journal and its archive as tables, sinks, reports. Only this package needs pyspark.

commands/           what the commands `leveret pipeline ...` do: one file for each, found by its name
report/             reports on queues: tables, a page with plots, and a few lines for a terminal
archive.py          the archive: sealed segments of the journal, and records of streams
archive_files.py    files of an archive, in a directory or in an object store
archive_state.py    how far the journal and streams are in an archive
beginning.py        where history begins: behind the last segment that was removed before an archive had it
check.py            whether history has all that the broker counted
columns.py          the columns of the tables of the pipeline
compaction.py       what keeps an archive small: old days go, small files are put together
convert.py          archives of the layout before Iceberg become tables
directories.py      directories: what a path or a URI names, the same for Python, for Spark and on every machine
edits.py            messages before they are published again
events.py           the table `events`: one row for each thing that happened to one message in one queue
forecast.py         forecast: what a workload that grows every month needs, and when it reaches a limit
generate.py         a workload that looks real, of any size, as rows of the table `events`
iceberg.py          the tables of an archive as Apache Iceberg tables, whose catalog is their directory
insert.py           INSERT INTO a queue or a stream: rows have all columns of its table, and only some can be published
layout.py           how tables lie in an archive: by day, queue and time; files that tasks write
lifecycle.py        the lives of messages: from events to one row for each message in each queue
live.py             sources at a running broker: a stream or a queue, as the options say
messages.py         the table `messages`: one row for each message in each queue that it was published to
options.py          options of a source as Spark gives them: texts under lower-case names
parquet.py          reading an archive: only files of its newest snapshot, and of those only what may be wanted
plan.py             capacity: what a workload needs of brokers, disks, memory and networks
progress.py         one line on a terminal that says what a job is doing and how far Spark is
publishing.py       publishing rows to a broker through the sink
queues.py           queues for Spark: as a stream, by reservations of the server, and as a table
records.py          the tables `stream` and `queue`: records of a stream with their offsets
redrive.py          redrive: messages that wait in a queue, mostly dead letters, are moved to where they died
rehearsal.py        rehearsal: a past period for other consumers in a virtual host of its own, and what differs
replay.py           replay: messages of the archive or journal are published again, in their order, each once
row_groups.py       batches of Arrow as pieces of a sink: columns are copied as they lie in memory
scan.py             a scan: which segments, which rows of them, which columns
segments.py         segments as the pipeline reads them: which files there are, how they are cut into slices
server.py           a server as tasks use it: requests that may be repeated
session.py          a Spark session with the settings that the pipeline wants: local, quiet, in UTC
sink.py             the sink: each task stages its rows, the driver commits all of them at once
source.py           `spark.read.format("leveret")`: the journal of a broker and its archive as tables
spans.py            spans of offsets: how much of each partition one batch takes, and how that is cut into tasks
spark_api.py        Spark's API for sources, from 4.0 on: names that a version lacks have a stand-in
sql.py              tables for SQL: what a query reads and inserts into by name
store_segments.py   segments in PostgreSQL as files: those that are sealed are fetched
stream_files.py     a stream in a data directory, as a place that tasks read from; the broker need not run
stream_query.py     streaming queries on streams: which offsets each batch has, and what the checkpoint keeps
streams.py          streams for Spark: a range of offsets as a table
testing.py          for tests of your own jobs: a session, sources in memory, and what a sink would publish
tables.py           tables by their path, whatever format they are kept in
tasks.py            tasks of our own: each makes rows of one piece of what the driver has
target.py           where a DataFrame is written to: the options of `df.write.format("leveret")`
transfer.py         a redrive of messages that are changed on the way, or go to an exchange
wording.py          figures for people: numbers, durations, shares and times as pages and terminals write them
writing.py          writing tables as Parquet: rows that tasks wrote are counted in the files that this machine sees
"""
