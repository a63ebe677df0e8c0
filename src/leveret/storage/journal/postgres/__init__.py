"""The journal in PostgreSQL: the tables of a shard, its owner epoch, and recovery from rows."""
