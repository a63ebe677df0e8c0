"""Copying a shard from one database to another, by its owner, under the epoch that it has.

    begin         the shard is taken over in the target at the same epoch, and emptied there
    copy_ahead    what there is is copied, while more is written
    finish        nothing is written any more: the end of the log, large bodies, the checkpoint, and the row

Segments of streams are copied likewise: those that another one follows in their partition are complete.

Rows are copied as they are, so that the target has the same bytes. Every change of the target names the epoch: a copy
whose owner is not the owner any more does nothing. What an unfinished one leaves there is removed by the next.

`sweep` removes what was moved away, and fences its last owner. The row stays and says that there are segments: no node
can take that for a shard which never had any.
"""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from psycopg.types.numeric import Int8

from leveret.core.errors import Fenced, JournalFailed, StoreUnreachable
from leveret.storage.journal.postgres import streams
from leveret.storage.journal.postgres.blobs import blob_table, create_blobs
from leveret.storage.journal.postgres.session import PostgresSession, Run, Values, tables
from leveret.storage.journal.postgres.statements import (
    ADD,
    CREATE_CHECKPOINT,
    CREATE_SEGMENT,
    LOAD_PART,
    SAVE_PART,
    TAKE,
    UPKEEP_TIMEOUT_MS,
    create,
    segment_table,
)
from leveret.storage.journal.postgres.streams import table_of, values_of
from leveret.storage.journal.postgres.table import FIRST_START, SegmentKey, Unknown

BATCH_BYTES = 4 << 20
"""Fetched and stored at once."""
DROPS_MAX = 50
"""Tables that are dropped in a transaction: each of them needs several entries in PostgreSQL's table of locks."""
LOOK = "select segment, oldest, checkpoint, meta from leveret_shard where id = %(shard)s and epoch = %(epoch)s"
OWNED = "update leveret_shard set owner = owner where id = %(shard)s and epoch = %(epoch)s"
SET = """
    update leveret_shard set segment = %(segment)s, oldest = %(oldest)s, checkpoint = %(checkpoint)s, meta = %(meta)s
    where id = %(shard)s and epoch = %(epoch)s"""
GONE = """
    update leveret_shard set segment = greatest(segment, 1), checkpoint = ''
    where id = %(shard)s and epoch = %(epoch)s"""
FETCH = """
    select {columns} from {table}
    where start >= %(start)s and start < %(start)s + %(size)s order by start"""
STORE = """
    insert into {table} select * from
    unnest(%(starts)s::bigint[], %(seqs)s::bigint[], %(epochs)s::bigint[], %(datas)b::bytea[])"""
STORE_STREAM = "insert into {table} select * from unnest(%(starts)s::bigint[], %(datas)b::bytea[])"
FORGET_STREAMS = "delete from leveret_stream where shard = %(shard)s"
WEIGHT = "select count(*), coalesce(sum(length(data)), 0)::bigint from {table}"

Answer = TypeVar("Answer")


class Extent(NamedTuple):
    """What the row of a shard says about its tables."""

    segment: int
    oldest: int
    checkpoint: str
    meta: str


class ShardCopy:
    """One shard on its way. Fenced: there is a newer owner. StoreUnreachable: one of the databases does not answer."""

    def __init__(self, source: str, target: str, shard: int, owner: str, epoch: int) -> None:
        """Copy from one URL to another, as the owner at an epoch; nothing is done yet."""
        self._source = PostgresSession(source, UPKEEP_TIMEOUT_MS)
        self._target = PostgresSession(target, UPKEEP_TIMEOUT_MS)
        self._shard = shard
        self._owner = owner
        self._values: Values = {"shard": Int8(shard), "epoch": Int8(epoch)}
        self._ends: dict[int, int] = {}
        """How far each segment is copied."""
        self._growing = 0
        """Segments below this one do not change any more, and were copied whole."""
        self._copied_streams: set[SegmentKey] = set()
        self._cancelled = threading.Event()
        self.cancel = self._cancelled.set  # a running copy stops soon; from any thread

    def begin(self) -> None:
        """Own the shard in the target, with nothing in it."""
        meta = self._extent().meta
        done(self._target, create)
        done(self._target, lambda run: run(ADD, {**self._values, "meta": meta}))
        done(self._target, lambda run: take(run, self._values, self._owner))
        empty(self._target, self._shard, self._values)
        self._set(Extent(0, 1, "", meta))

    def copy_ahead(self) -> None:
        """Copy what there is of the log, and what large bodies there are."""
        extent = self._extent()
        for number in self._there():
            try:
                self._copy_segment(number)
                if number < extent.segment:
                    self._compare(self._segment(number))
            except JournalFailed:
                if number in self._there():
                    raise
                # It was history that has reached a limit meanwhile.
        self._growing = extent.segment
        self._copy_streams(complete=True)
        self._copy_blobs()

    def finish(self) -> None:
        """Copy the rest, after which the target has all that the source has."""
        done(self._source, lambda run: owned(run, self._values))
        extent = self._extent()
        there = self._there()
        for number in there:
            if number >= self._growing:
                self._copy_segment(number)
                self._compare(self._segment(number))
        if extent.checkpoint:
            self._copy_checkpoint(extent.checkpoint)
            self._compare(extent.checkpoint)
        self._copy_streams(complete=False)
        for segment in self._copied_streams:
            self._compare(table_of(self._shard, segment))
        self._copy_blobs()
        gone = self._ends.keys() - set(there)
        drop(self._target, [self._segment(number) for number in gone], self._values)
        self._set(extent)

    def close(self) -> None:
        self._source.close()
        self._target.close()

    def _extent(self) -> Extent:
        """What the source has, if it is still ours."""
        rows = done(self._source, lambda run: run(LOOK, self._values)[1])
        if not rows:
            raise overtaken()
        return Extent(*rows[0])

    def _set(self, extent: Extent) -> None:
        """Let the row of the target say what it has."""
        facts = {"segment": Int8(extent.segment), "oldest": Int8(extent.oldest)}
        texts = {"checkpoint": extent.checkpoint, "meta": extent.meta}

        def change(run: Run) -> None:
            if run(SET, {**self._values, **facts, **texts})[0] == 0:
                raise overtaken()

        done(self._target, change)

    def _there(self) -> list[int]:
        """The segments of history and of the log."""
        names = done(self._source, lambda run: tables(run, f"leveret_segment_{self._shard}_%"))
        return sorted(int(name.rpartition("_")[2]) for name in names)

    def _segment(self, number: int) -> str:
        return segment_table(self._shard, number)

    def _copy_segment(self, number: int) -> None:
        """Copy what one segment has by now and the target has not, as a whole or not at all."""
        table, start = self._segment(number), self._ends.get(number, FIRST_START)

        def copy(run: Run) -> int:
            for statement in CREATE_SEGMENT if start == FIRST_START else ():
                run(statement.format(table=table), None)
            end = start
            for rows in self._batches(table, "start, seq, epoch, data", start):
                starts, seqs, epochs, datas = map(list, zip(*rows, strict=True))
                run(STORE.format(table=table), {"starts": starts, "seqs": seqs, "epochs": epochs, "datas": datas})
                end = starts[-1] + len(datas[-1])
            return end

        self._ends[number] = self._store(copy)

    def _batches(self, table: str, columns: str, start: int) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a segment, some at a time; each begins where the one before it ends."""
        statement = FETCH.format(table=table, columns=columns)
        while rows := self._fetch(statement, {"start": Int8(start), "size": Int8(BATCH_BYTES)}):
            yield rows
            start = rows[-1][0] + len(rows[-1][-1])

    def _copy_streams(self, *, complete: bool) -> None:
        """Copy the segments of streams that the target has not; `complete`: of those that will not change any more."""
        there = self._stream_segments()
        for segment in self._copied_streams - set(there):
            self._forget_stream(segment)
        last = set({(segment.stream, segment.partition): segment for segment in there}.values())
        for segment in there:
            if segment in self._copied_streams or (complete and segment in last):
                continue
            try:
                self._copy_stream(segment)
            except JournalFailed:
                if segment in self._stream_segments():
                    raise
                # It was too old, and was removed meanwhile.

    def _stream_segments(self) -> list[SegmentKey]:
        """The segments of streams that there are, in the order of their offsets."""
        rows = self._fetch(streams.SEGMENTS, {"shard": Int8(self._shard)})
        return [SegmentKey(*key) for *key, _ in rows]

    def _copy_stream(self, segment: SegmentKey) -> None:
        """Copy one segment of a stream, as a whole or not at all."""
        table, values = table_of(self._shard, segment), values_of(self._shard, segment)
        index = self._fetch(streams.INDEX, values)

        def copy(run: Run) -> None:
            run(streams.ADD, values)
            if index and index[0][0] is not None:
                run(streams.SET_INDEX, {**values, "data": index[0][0]})
            for statement in streams.CREATE_SEGMENT:
                run(statement.format(table=table), None)
            for rows in self._batches(table, "start, data", 0):
                starts, datas = map(list, zip(*rows, strict=True))
                run(STORE_STREAM.format(table=table), {"starts": starts, "datas": datas})

        self._store(copy)
        self._copied_streams.add(segment)

    def _forget_stream(self, segment: SegmentKey) -> None:
        """Let the target not have a segment that was removed from the source meanwhile."""

        def remove(run: Run) -> None:
            run(streams.REMOVE, values_of(self._shard, segment))
            run(f"drop table {table_of(self._shard, segment)}", None)

        self._store(remove)
        self._copied_streams.remove(segment)

    def _compare(self, table: str) -> None:
        weights = [
            done(each, lambda run: run(WEIGHT.format(table=table), {})[1]) for each in (self._source, self._target)
        ]
        if weights[0] != weights[1]:
            raise JournalFailed(f"the copy of {table} is not as heavy as the table: move the shard again")

    def _copy_checkpoint(self, table: str) -> None:
        def copy(run: Run) -> None:
            for statement in CREATE_CHECKPOINT:
                run(statement.format(table=table), None)
            part = 0
            while rows := self._fetch(LOAD_PART.format(table=table), {"part": Int8(part)}):
                run(SAVE_PART.format(table=table), {"part": Int8(part), "data": rows[0][0]})
                part += 1

        self._store(copy)

    def _copy_blobs(self) -> None:
        """Copy the large bodies that the target has not; those without a pointer are swept when it is opened."""
        table = blob_table(self._shard)
        if not done(self._source, lambda run: tables(run, table)):
            return
        done(self._target, lambda run: create_blobs(run, table))
        known = {key for (key,) in done(self._target, lambda run: run(f"select key from {table}", {})[1])}
        for (key,) in self._fetch(f"select key from {table}", {}):
            if key not in known:
                self._copy_blob(table, key)

    def _copy_blob(self, table: str, key: str) -> None:
        """Copy one, unless it was deleted meanwhile."""
        rows = self._fetch(f"select data from {table} where key = %(key)s", {"key": key})

        def copy(run: Run) -> None:
            run(f"insert into {table} values (%(key)s, %(data)b)", {"key": key, "data": rows[0][0]})

        if rows:
            self._store(copy)

    def _store(self, work: Callable[[Run], Answer]) -> Answer:
        """Change the target in one transaction, as the owner of the shard."""

        def change(run: Run) -> Answer:
            owned(run, self._values)
            return work(run)

        return done(self._target, change)

    def _fetch(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """Rows of the source, unless the copy was cancelled."""
        if self._cancelled.is_set():
            raise StoreUnreachable("the copy was given up: move the shard again")
        return done(self._source, lambda run: run(statement, values)[1])


def sweep(url: str, shard: int, owner: str, epoch: int) -> None:
    """Remove the tables of a shard that is elsewhere now; Fenced: there is a newer owner, whose business it is."""
    session = PostgresSession(url, UPKEEP_TIMEOUT_MS)
    values: Values = {"shard": Int8(shard), "epoch": Int8(epoch)}
    try:
        done(session, lambda run: take(run, values, owner))
        empty(session, shard, values)
        done(session, lambda run: run(GONE, values))
    finally:
        session.close()


def done(session: PostgresSession, work: Callable[[Run], Answer]) -> Answer:
    """Do something in a transaction; a caller that does not know the outcome begins anew with another epoch."""
    try:
        return session.transact(work)
    except Unknown as unknown:
        raise StoreUnreachable(f"a database does not answer: {unknown}; move the shard again") from unknown


def take(run: Run, values: Values, owner: str) -> None:
    """Own a shard at an epoch."""
    if not run(TAKE, {**values, "owner": owner})[1]:
        raise overtaken()


def owned(run: Run, values: Values) -> None:
    """Go on only while no other owner has taken over; from here on in this transaction none can."""
    if run(OWNED, values)[0] == 0:
        raise overtaken()


def overtaken() -> Fenced:
    """The error of a node that is not the owner any more."""
    return Fenced("the shard has another owner by now: move it again")


def empty(session: PostgresSession, shard: int, values: Values) -> None:
    """Remove all tables of a shard, and leave its row."""
    kinds = ("segment", "checkpoint", "stream")
    for pattern in (*(f"leveret_{kind}_{shard}_%" for kind in kinds), blob_table(shard)):
        drop(session, done(session, partial(tables, pattern=pattern)), values)

    def forget(run: Run) -> None:
        owned(run, values)
        run(FORGET_STREAMS, {"shard": Int8(shard)})

    done(session, forget)


def drop(session: PostgresSession, names: list[str], values: Values) -> None:
    """Drop tables, some at a time, each time as the owner of their shard."""
    for first in range(0, len(names), DROPS_MAX):
        some = names[first : first + DROPS_MAX]

        def drop_some(run: Run, some: list[str] = some) -> None:
            owned(run, values)
            run(f"drop table {', '.join(some)}", None)

        done(session, drop_some)
