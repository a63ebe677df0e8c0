"""The journal in PostgreSQL: the tables of a shard, its owner epoch, and recovery from rows.

blobs.py          large bodies beside a log in PostgreSQL: a row for each, in a table of the shard
bounded_reads.py  questions to a database that other threads wait for as well: reads under the lock of a broker
reader.py         reading a log back from a table: single records, and all of it when a shard was taken over
rows.py           the bytes of a segment as rows of a table: each row has where it begins, and what lies there
session.py        a connection to PostgreSQL that is made when it is needed, and given up after any error
shard_copy.py     copying a shard from one database to another, by its owner, under the epoch that it has
statements.py     one shard of a store in PostgreSQL: the tables and the statements
store.py          a shard of a store in PostgreSQL, open: taken over, recovered
stream_table.py   the stream port: segments of streams in the tables of a shard, beside the segments of its log
streams.py        segments of streams in PostgreSQL: the tables and the statements
table.py          the table port: one shard of a store in PostgreSQL, as its journal uses it
writer.py         puts sealed batches into a table: the database side of a commit, one caller at a time
"""
