"""Segments of streams in PostgreSQL: the tables and the statements.

    leveret_stream                                          | shard | stream | partition | base | index |
    leveret_stream_<shard>_<stream>_<partition>_<base>      | start | data |    the bytes of one segment

A segment is in its stream for as long as it has a row in the first table; that row has the index, too. Retention takes
the row away in the transaction of a commit batch, which must not wait. The table of the segment goes later: dropping it
waits for its readers, a backup for example.
"""

from collections.abc import Callable, Sequence
from typing import Any

from psycopg.types.numeric import Int8

from leveret.storage.journal.postgres.session import (
    PART_BYTES,
    READ_TIMEOUT_MS,
    UNCOMPRESSED,
    PostgresSession,
    Run,
    Values,
    drop_soon,
    end,
    parts,
    tables,
    window,
)
from leveret.storage.journal.postgres.table import (
    NewIndex,
    Removal,
    SegmentAppend,
    SegmentKey,
    StoredSegment,
    StreamChange,
    Unknown,
)

PUTS_MAX = 64
"""In one statement; each of them is planned."""

CREATE = """
    create table if not exists leveret_stream (
        shard int not null, stream bigint not null, partition int not null, base bigint not null, index bytea,
        primary key (shard, stream, partition, base)
    )"""
OF_SEGMENT = "shard = %(shard)s and stream = %(stream)s and partition = %(partition)s and base = %(base)s"
ADD = "insert into leveret_stream values (%(shard)s, %(stream)s, %(partition)s, %(base)s)"
CREATE_SEGMENT = ("create table {table} (start bigint primary key, data bytea not null)", UNCOMPRESSED)
PUT = "insert into {table} values (%(start)s, %(data)b)"
PUT_BESIDE = ",\n    put_{0} as (insert into {table} select %(start_{0})s, %(data_{0})b from frame)"
"""Of a statement that has appended a commit batch."""
SET_INDEX = f"update leveret_stream set index = %(data)b where {OF_SEGMENT}"
REMOVE = f"delete from leveret_stream where {OF_SEGMENT}"
INDEX = f"select index from leveret_stream where {OF_SEGMENT}"
SEGMENTS = """
    select stream, partition, base, index is not null from leveret_stream where shard = %(shard)s order by 1, 2, 3"""
OWNED = "select id from leveret_shard where id = %(shard)s and epoch = %(epoch)s for share"
FORGET = "delete from leveret_stream where shard = %(shard)s and stream = %(stream)s"


def table_of(shard: int, segment: SegmentKey) -> str:
    """The table of a segment."""
    return f"leveret_stream_{shard}_{segment.stream}_{segment.partition}_{segment.base}"


def values_of(shard: int, segment: SegmentKey, **values: object) -> Values:
    """Values of a statement on a segment."""
    key = {name: Int8(value) for name, value in segment._asdict().items()}
    return {"shard": Int8(shard), **key, **values}


def plain(changes: Sequence[StreamChange]) -> list[SegmentAppend] | None:
    """The changes, if they are nothing but pieces that fit into a row each, of segments that were begun before."""
    pieces = [
        each for each in changes if isinstance(each, SegmentAppend) and each.start and len(each.data) <= PART_BYTES
    ]
    return pieces if len(pieces) == len(changes) <= PUTS_MAX else None


def puts(shard: int, pieces: Sequence[SegmentAppend]) -> tuple[str, Values]:
    """What to add to the statement of a commit batch, and its values: it is done with one answer, as a commit batch
    alone is.
    """
    text, values = "", Values()
    for number, piece in enumerate(pieces):
        text += PUT_BESIDE.format(number, table=table_of(shard, piece.segment))
        values |= {f"start_{number}": Int8(piece.start), f"data_{number}": piece.data}
    return text, values


def store(run: Run, shard: int, changes: Sequence[StreamChange]) -> None:
    """Make changes, in a transaction that belongs to the owner of the shard."""
    for change in changes:
        STORE[type(change)](run, shard, change)


def _put(run: Run, shard: int, piece: SegmentAppend) -> None:
    """Add rows to the table of a segment; the first one makes it."""
    table = table_of(shard, piece.segment)
    if piece.start == 0:
        run(ADD, values_of(shard, piece.segment))
        for statement in CREATE_SEGMENT:
            run(statement.format(table=table), None)
    start = piece.start
    for part in parts([piece.data]):
        run(PUT.format(table=table), {"start": Int8(start), "data": part})
        start += len(part)


def _set_index(run: Run, shard: int, change: NewIndex) -> None:
    run(SET_INDEX, values_of(shard, change.segment, data=change.data))


def _remove(run: Run, shard: int, change: Removal) -> None:
    run(REMOVE, values_of(shard, change.segment))


STORE: dict[type[StreamChange], Callable[[Run, int, Any], None]] = {
    SegmentAppend: _put,
    NewIndex: _set_index,
    Removal: _remove,
}


class PostgresStreams:
    """The segments of one shard; StreamTable of leveret.storage.journal.postgres.table says what the methods do.

    It has a connection of its own while there is something to read: readers of streams take their time.
    """

    def __init__(self, url: str, shard: int, epoch: int) -> None:
        self._shard = shard
        self._epoch = epoch
        self._session = PostgresSession(url, READ_TIMEOUT_MS)
        self._active = False

    def segments(self) -> list[StoredSegment]:
        rows, left = self._session.transact(self._look)
        for name in left:
            try:
                self._drop(name)
            except Unknown:
                break  # the next owner may have more luck
        found = [(SegmentKey(*key), indexed) for *key, indexed in rows]
        return [StoredSegment(key, end(self._session.run, table_of(self._shard, key)), has) for key, has in found]

    def _look(self, run: Run) -> tuple[list[tuple[Any, ...]], set[str]]:
        """The rows of all segments, and tables of none; a newer owner has tables that look like that from here."""
        owned = run(OWNED, self._owner())[0]
        rows = run(SEGMENTS, {"shard": Int8(self._shard)})[1]
        known = {table_of(self._shard, SegmentKey(*key)) for *key, _ in rows}
        return rows, set(tables(run, f"leveret_stream_{self._shard}_%")) - known if owned else set()

    def read(self, segment: SegmentKey, start: int, size: int) -> bytes:
        self._active = True
        return window(self._session.run, table_of(self._shard, segment), start, size)[:size]

    def index(self, segment: SegmentKey) -> bytes | None:
        rows = self._session.run(INDEX, values_of(self._shard, segment))[1]
        return rows[0][0] if rows else None

    def forget(self, stream: int) -> bool:
        values = {"shard": Int8(self._shard), "stream": Int8(stream)}
        return self._owned(lambda run: run(FORGET, values))

    def drop(self, segment: SegmentKey) -> bool:
        return self._drop(table_of(self._shard, segment))

    def _drop(self, table: str) -> bool:
        """Drop a table, if this is still the owner; Unknown when others use it for too long."""
        return self._owned(lambda run: drop_soon(run, table))

    def _owned(self, change: Callable[[Run], object]) -> bool:
        """Do something in one transaction, if this is still the owner."""

        def work(run: Run) -> bool:
            if run(OWNED, self._owner())[0] == 0:
                return False
            change(run)
            return True

        return self._session.transact(work)

    def rest(self) -> None:
        if not self._active:
            self._session.close()
        self._active = False

    def close(self) -> None:
        self._session.end()

    def _owner(self) -> Values:
        """Values of a statement that asks who owns the shard."""
        return {"shard": Int8(self._shard), "epoch": Int8(self._epoch)}
