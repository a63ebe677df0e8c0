"""The journal in PostgreSQL: the tables of a shard, its owner epoch, and recovery from rows.

blobs.py       large bodies beside a log in PostgreSQL: a row for each, in a table of the shard
reader.py      reading a log back from a table: single records, and all of it when a shard was taken over
session.py     a connection to PostgreSQL that is made when it is needed, and given up after any error
shard_copy.py  copying a shard from one database to another, by its owner, under the epoch that it has
statements.py  one shard of a store in PostgreSQL: the tables and the statements
store.py       a shard of a store in PostgreSQL, open: taken over, recovered, and written to
streams.py     segments of streams in PostgreSQL: the tables and the statements
table.py       the table port: one shard of a store in PostgreSQL, as its journal and its streams use it
"""
