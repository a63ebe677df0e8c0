"""Copying a shard from one database to another, by its owner, under the epoch that he has.

    begin         the shard is taken over in the target at the same epoch, and emptied there
    copy_ahead    what there is is copied, while more is written
    finish        nobody writes any more: the end of the log, large bodies, streams, the checkpoint, and the row

Rows are copied as they are, so that the target has the same bytes. Every change of the target names the epoch: a copy
whose owner is not the owner any more does nothing. What an unfinished one leaves there is removed by the next.

`sweep` removes what was moved away, and fences its last owner. The row stays and says that there are segments: nobody
can take that for a shard which never had any.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeVar

from psycopg.types.numeric import Int8

from leveret.core.errors import Fenced, JournalFailed, StoreUnreachable
from leveret.journal.postgres import ADD, CREATE_SEGMENT, TABLES, TAKE, UPKEEP_TIMEOUT_MS, create
from leveret.journal.postgres_blobs import blob_table, create_blobs
from leveret.journal.postgres_files import stream_table
from leveret.journal.postgres_session import Run, Session, Values
from leveret.journal.postgres_stream_copy import StreamCopy
from leveret.journal.table import FIRST_START, Unknown

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
    select start, seq, epoch, data from {table}
    where start >= %(start)s and start < %(start)s + %(size)s order by start"""
STORE = """
    insert into {table} select * from
    unnest(%(starts)s::bigint[], %(seqs)s::bigint[], %(epochs)s::bigint[], %(datas)b::bytea[])"""
WEIGHT = "select count(*), coalesce(sum(length(data)), 0)::bigint from {table}"
CREATE_PARTS = (
    "drop table if exists {table}",
    "create table {table} (part int primary key, data bytea not null)",
    "alter table {table} alter data set storage external",
)

Answer = TypeVar("Answer")


class Extent(NamedTuple):
    """What the row of a shard says about its tables."""

    segment: int
    oldest: int
    checkpoint: str
    meta: str

    @property
    def segments(self) -> range:
        """The segments that there are."""
        return range(self.oldest, self.segment + 1) if self.segment else range(0)


class ShardCopy:
    """One shard on its way. Fenced: there is a newer owner. StoreUnreachable: one of the databases does not answer."""

    def __init__(self, source: str, target: str, shard: int, owner: str, epoch: int) -> None:
        """Copy from one URL to another, as the owner at an epoch; nothing is done yet."""
        self._source = Session(source, UPKEEP_TIMEOUT_MS)
        self._target = Session(target, UPKEEP_TIMEOUT_MS)
        self._shard = shard
        self._owner = owner
        self._values: Values = {"shard": Int8(shard), "epoch": Int8(epoch)}
        self._ends: dict[int, int] = {}
        """How far each segment is copied."""
        self._growing = 0
        """Segments below this one do not change any more, and were copied whole."""
        self._cancelled = threading.Event()
        self._streams = StreamCopy(shard, self._fetch, self._look, self._change)

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
        for number in extent.segments:
            try:
                self._copy_segment(number)
                if number < extent.segment:
                    self._compare(self._segment(number))
            except JournalFailed:
                if number >= self._extent().oldest:
                    raise
                # It had nothing alive in it, and was removed meanwhile.
        self._growing = extent.segment
        self._copy_blobs()
        if self._has(stream_table(self._shard)):
            self._streams.copy_ahead()

    def finish(self) -> None:
        """Copy the rest, after which the target has all that the source has."""
        done(self._source, lambda run: owned(run, self._values))
        extent = self._extent()
        for number in extent.segments:
            if number >= self._growing:
                self._copy_segment(number)
                self._compare(self._segment(number))
        if extent.checkpoint:
            self._copy_checkpoint(extent.checkpoint)
            self._compare(extent.checkpoint)
        self._copy_blobs()
        if self._has(stream_table(self._shard)):
            self._streams.finish()
        gone = self._ends.keys() - set(extent.segments)
        drop(self._target, [self._segment(number) for number in gone], self._values)
        self._set(extent)

    def cancel(self) -> None:
        """Let whoever copies stop soon; from any thread."""
        self._cancelled.set()

    def close(self) -> None:
        """End the connections."""
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

    def _segment(self, number: int) -> str:
        return f"leveret_segment_{self._shard}_{number}"

    def _copy_segment(self, number: int) -> None:
        """Copy what one segment has by now and the target has not, as a whole or not at all."""
        table, start = self._segment(number), self._ends.get(number, FIRST_START)

        def copy(run: Run) -> int:
            owned(run, self._values)
            for statement in CREATE_SEGMENT if start == FIRST_START else ():
                run(statement.format(table=table), None)
            end = start
            while rows := self._fetch(FETCH.format(table=table), {"start": Int8(end), "size": Int8(BATCH_BYTES)}):
                starts, seqs, epochs, datas = map(list, zip(*rows, strict=True))
                run(STORE.format(table=table), {"starts": starts, "seqs": seqs, "epochs": epochs, "datas": datas})
                end = starts[-1] + len(datas[-1])
            return end

        self._ends[number] = done(self._target, copy)

    def _compare(self, table: str) -> None:
        """Refuse a copy that is not like the original."""
        weights = [
            done(each, lambda run: run(WEIGHT.format(table=table), {})[1]) for each in (self._source, self._target)
        ]
        if weights[0] != weights[1]:
            raise JournalFailed(f"the copy of {table} is not as heavy as the table: move the shard again")

    def _copy_checkpoint(self, table: str) -> None:
        """Copy the checkpoint, part by part."""

        def copy(run: Run) -> None:
            owned(run, self._values)
            for statement in CREATE_PARTS:
                run(statement.format(table=table), None)
            part = 0
            while rows := self._fetch(f"select data from {table} where part = %(part)s", {"part": Int8(part)}):
                run(f"insert into {table} values (%(part)s, %(data)b)", {"part": Int8(part), "data": rows[0][0]})
                part += 1

        done(self._target, copy)

    def _copy_blobs(self) -> None:
        """Copy the large bodies that the target has not; those that nobody names are swept when it is opened."""
        table = blob_table(self._shard)
        if not self._has(table):
            return
        done(self._target, lambda run: create_blobs(run, table))
        known = {key for (key,) in done(self._target, lambda run: run(f"select key from {table}", {})[1])}
        for (key,) in self._fetch(f"select key from {table}", {}):
            if key not in known:
                self._copy_blob(table, key)

    def _has(self, table: str) -> bool:
        """Whether the source has a table."""
        return bool(done(self._source, partial(tables, pattern=table)))

    def _change(self, work: Callable[[Run], object]) -> None:
        """Do something to the target, as its owner."""

        def change(run: Run) -> None:
            owned(run, self._values)
            work(run)

        done(self._target, change)

    def _copy_blob(self, table: str, key: str) -> None:
        """Copy one, unless it was deleted meanwhile."""
        rows = self._fetch(f"select data from {table} where key = %(key)s", {"key": key})
        statement = f"insert into {table} values (%(key)s, %(data)b)"
        if rows:
            self._change(lambda run: run(statement, {"key": key, "data": rows[0][0]}))

    def _fetch(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """Rows of the source, unless the copy was cancelled."""
        if self._cancelled.is_set():
            raise StoreUnreachable("the copy was given up: move the shard again")
        return done(self._source, lambda run: run(statement, values)[1])

    def _look(self, statement: str, values: Values) -> list[tuple[Any, ...]]:
        """Rows of the target."""
        return done(self._target, lambda run: run(statement, values)[1])


def sweep(url: str, shard: int, owner: str, epoch: int) -> None:
    """Remove the tables of a shard that is elsewhere now; Fenced: there is a newer owner, whose business it is."""
    session = Session(url, UPKEEP_TIMEOUT_MS)
    values: Values = {"shard": Int8(shard), "epoch": Int8(epoch)}
    try:
        done(session, lambda run: take(run, values, owner))
        empty(session, shard, values)
        done(session, lambda run: run(GONE, values))
    finally:
        session.close()


def done(session: Session, work: Callable[[Run], Answer]) -> Answer:
    """Do something in a transaction; whoever does not know what became of it begins anew with another epoch."""
    try:
        return session.transact(work)
    except Unknown as unknown:
        raise StoreUnreachable(f"a database does not answer: {unknown}; move the shard again") from unknown


def take(run: Run, values: Values, owner: str) -> None:
    """Own a shard at an epoch."""
    if not run(TAKE, {**values, "owner": owner})[1]:
        raise overtaken()


def owned(run: Run, values: Values) -> None:
    """Go on only while nobody has taken over; from here on in this transaction nobody can."""
    if run(OWNED, values)[0] == 0:
        raise overtaken()


def overtaken() -> Fenced:
    """The error of whoever is not the owner any more."""
    return Fenced("the shard has another owner by now: move it again")


def empty(session: Session, shard: int, values: Values) -> None:
    """Remove all tables of a shard, and leave its row."""
    patterns = (
        f"leveret_segment_{shard}_%",
        f"leveret_checkpoint_{shard}_%",
        blob_table(shard),
        stream_table(shard),
    )
    for pattern in patterns:
        drop(session, done(session, partial(tables, pattern=pattern)), values)


def tables(run: Run, pattern: str) -> list[str]:
    """The tables with names like a pattern, in which an underscore stands for itself."""
    return [name for (name,) in run(TABLES, {"pattern": pattern.replace("_", "\\_")})[1]]


def drop(session: Session, names: list[str], values: Values) -> None:
    """Drop tables, some at a time, each time as the owner of their shard."""
    for first in range(0, len(names), DROPS_MAX):
        some = names[first : first + DROPS_MAX]

        def drop_some(run: Run, some: list[str] = some) -> None:
            owned(run, values)
            run(f"drop table {', '.join(some)}", None)

        done(session, drop_some)
