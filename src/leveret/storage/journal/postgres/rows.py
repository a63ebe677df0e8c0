"""The bytes of a segment as rows of a table: each row has where it begins, and what lies there.

`data` is stored uncompressed outside of the row, so that a part of it can be read alone.
"""

from collections.abc import Iterator, Sequence

from psycopg.types.numeric import Int8

from leveret.storage.disk import Bytes
from leveret.storage.journal.postgres.session import Run

PART_BYTES = 8 << 20
"""In one row of something that can be cut: a value must not be too large."""
READ_TIMEOUT_MS = 10_000
"""Reads are given up after a while: they hold no promise."""

DROP_WAIT_MS = 200
"""For others who use a table that is to go: who comes after us in its line waits meanwhile, and so does a takeover."""

UNCOMPRESSED = "alter table {table} alter data set storage external"
WINDOW = """
    select substring(data from greatest(%(start)s - start, 0)::int + 1 for %(size)s::int) from {table}
    where start >= (select max(start) from {table} where start <= %(start)s) and start < %(start)s + %(size)s
    order by start"""
END = "select start + length(data) from {table} order by start desc limit 1"
TABLES = """
    select tablename::text from pg_tables where schemaname = current_schema() and tablename like %(pattern)s"""


def window(run: Run, table: str, start: int, size: int) -> bytes:
    """At least `size` bytes from a place on, if the table has them."""
    rows = run(WINDOW.format(table=table), {"start": Int8(start), "size": Int8(size)})[1]
    return b"".join(row[0] for row in rows)


def end(run: Run, table: str) -> int:
    """Where the last row ends."""
    rows = run(END.format(table=table), {})[1]
    return int(rows[0][0]) if rows else 0


def tables(run: Run, pattern: str) -> list[str]:
    """The tables with names like a pattern, in which an underscore stands for itself."""
    return [name for (name,) in run(TABLES, {"pattern": pattern.replace("_", "\\_")})[1]]


def drop_soon(run: Run, table: str) -> None:
    """Drop a table, in a transaction; Unknown when others use it for too long."""
    run(f"set local lock_timeout = {DROP_WAIT_MS}", None)
    run(f"drop table if exists {table}", None)


def parts(whole: Sequence[Bytes]) -> Iterator[memoryview]:
    """The same bytes in pieces that fit into a row."""
    for each in whole:
        view = memoryview(each)
        yield from (view[start : start + PART_BYTES] for start in range(0, len(view), PART_BYTES))
