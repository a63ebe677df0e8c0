"""One shard of a store in PostgreSQL: the tables and the statements.

    leveret_shard                       | id | epoch | owner | segment | oldest | checkpoint | meta |
    leveret_segment_<shard>_<number>    | start | seq | epoch | data |      a row for the header, one for each batch
    leveret_checkpoint_<shard>_<epoch>_<seq>   | part | data |

Rows are keyed by where they begin in their segment: that finds the commit batch of a record, orders them for a replay,
and bounds by bytes what is fetched at once. A segment and a checkpoint each have a table: dropping it costs the same
however much is in it, and leaves nothing for vacuum. The header of a segment has the number of the commit batch before
it, so that the last row always tells where the log ends.

An append locks the row of the shard against a takeover, and changes nothing there. If it counted there, each would
leave a dead version of that row, and while another transaction is open for long (a backup) none of them can be
removed: after 12,000 appends an append took three times as long.

The tables are in the first schema of the search path. Every change names the epoch that was taken; see table.py.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from psycopg.types.numeric import Int8

from leveret.core.errors import InvalidArgument, JournalFailed
from leveret.storage.disk import Bytes
from leveret.storage.journal.files.meta import parse_meta
from leveret.storage.journal.files.segments import FRAME_HEADER_BYTES
from leveret.storage.journal.postgres import streams
from leveret.storage.journal.postgres.session import (
    READ_TIMEOUT_MS,
    UNCOMPRESSED,
    PostgresSession,
    Run,
    Values,
    drop_soon,
    end,
    tables,
    window,
)
from leveret.storage.journal.postgres.session import parts as in_rows
from leveret.storage.journal.postgres.table import FIRST_START, SegmentAppend, SegmentRow, ShardRow, Unknown

SHARDS_MAX = 1 << 15
UPKEEP_TIMEOUT_MS = 20_000
"""Upkeep is given up after a while: it holds no promise. An append waits for as long as it takes."""
STUCK_US = 5_000_000
"""A statement of upkeep that takes longer will not come to an end before the store is closed."""
SCHEMA_LOCK = 0x6C657665
"""Of those who create the same tables at the same time."""

COLUMNS = "epoch, owner, -1::bigint, segment, oldest, checkpoint, meta"
"""As Shard has them; the end of the log is not in the row."""
CREATE = """
    create table if not exists leveret_shard (
        id int primary key, epoch bigint not null, owner text not null, segment bigint not null,
        oldest bigint not null, checkpoint text not null, meta text not null
    ) with (fillfactor = 50)"""
ADD = """
    insert into leveret_shard values (%(shard)s, 0, '', 0, 1, '', %(meta)s) on conflict (id) do nothing"""
TAKE = f"""
    update leveret_shard set epoch = %(epoch)s, owner = %(owner)s
    where id = %(shard)s and (epoch < %(epoch)s or epoch = %(epoch)s and owner = %(owner)s)
    returning {COLUMNS}"""
BARRIER = f"""
    update leveret_shard set owner = owner where id = %(shard)s and epoch = %(epoch)s returning {COLUMNS}"""
LOOK = f"select {COLUMNS} from leveret_shard where id = %(shard)s"
BEGIN = """
    update leveret_shard set segment = %(segment)s
    where id = %(shard)s and epoch = %(epoch)s and segment = %(segment)s - 1"""
CREATE_SEGMENT = (
    "create table {table} (start bigint primary key, seq bigint not null, epoch bigint not null, data bytea not null)",
    UNCOMPRESSED,
)
CREATE_CHECKPOINT = (
    "drop table if exists {table}",
    "create table {table} (part int primary key, data bytea not null)",
    UNCOMPRESSED,
)
SAVE_PART = "insert into {table} values (%(part)s, %(data)b)"
LOAD_PART = "select data from {table} where part = %(part)s"
HEADER = "insert into {table} values (0, %(seq)s, %(epoch)s, %(data)b)"
APPEND = """
    with owned as (select id from leveret_shard where id = {shard} and epoch = {epoch} for share),
    frame as (
        insert into {table} select {start}, {seq}, {epoch}, {data} from owned
        where (select seq from {table} where start < {start} order by start desc limit 1) = {seq} - 1
        on conflict (start) do nothing returning seq
    ){beside}
    select seq from frame"""
BY_NAME = {name: f"%({name})s" for name in ("shard", "epoch", "start", "seq")} | {"data": "%(data)b"}
BY_NUMBER = {name: f"${number}" for number, name in enumerate(BY_NAME, 1)}
TYPES = (20, 20, 20, 20, 17)  # int8, and bytea for the data
LAST = "select seq from {table} where start >= %(start)s order by start desc limit 1"
ROWS = """
    select start, seq, data from {table}
    where start >= greatest(%(start)s, 1) and start < %(start)s + %(size)s order by start"""
BATCH = "select start, seq, data from {table} where start <= %(start)s order by start desc limit 1"
FIRST_HEADER = "select substr(data, 1, %(size)s::int) from {table} where start > 0 order by start limit 1"
SAVE = "update leveret_shard set checkpoint = %(name)s where id = %(shard)s and epoch = %(epoch)s"
META = "update leveret_shard set meta = %(meta)s where id = %(shard)s and epoch = %(epoch)s"
REMOVE = """
    update leveret_shard set oldest = greatest(oldest, %(segment)s + 1) where id = %(shard)s and epoch = %(epoch)s"""


class PostgresTable:
    """One shard in PostgreSQL; Table of leveret.storage.journal.postgres.table says what the methods do.

    It has two connections, and a third one for as long as something is stored or removed.
    """

    def __init__(self, url: str, shard: int = 0) -> None:
        """Use a shard of the store at a URL; connections are made when they are needed."""
        if not 0 <= shard < SHARDS_MAX:
            raise ValueError(f"shards are 0 to {SHARDS_MAX - 1}")
        self._shard = shard
        self._epoch = 0
        self._append_to = 0, ""  # the segment of the last commit batch, and the statement
        self._log = PostgresSession(url, 0)
        self._reading = PostgresSession(url, READ_TIMEOUT_MS)
        self._upkeep = PostgresSession(url, UPKEEP_TIMEOUT_MS)
        self._dropping: list[str] = []
        """Tables that are not needed any more."""

    def takeover(self, epoch: int | None, owner: str, meta: str) -> ShardRow | None:
        self._log.transact(create)
        if epoch is None:
            self._log.transact(check_alone)
        self._log.run(ADD, self._values(meta=meta))
        found = self.shard()
        parse_meta(found.meta)  # raises if a newer version has written there, whose server is not to be put out
        # Never `epoch + 1` in the statement: one that lands late would fence those who have taken over since.
        taken = found.epoch + 1 if epoch is None else epoch
        values = self._values(epoch=Int8(taken), owner=owner)
        shard = self._log.transact(lambda run: self._changed(run, TAKE, values))
        if shard is None:
            return None
        self._epoch = shard.epoch
        self._sweep(shard)
        return shard

    def barrier(self) -> ShardRow | None:
        return self._log.transact(lambda run: self._changed(run, BARRIER, self._values()))

    def shard(self) -> ShardRow:
        # Not on the connection of the log: a store under load would hardly ever find it free.
        rows = self._reading.run(LOOK, self._values())[1]
        if not rows:
            raise JournalFailed(f"shard {self._shard} has no row in leveret_shard any more: restore a backup")
        return ShardRow(*rows[0])

    def _changed(self, run: Run, statement: str, values: Values) -> ShardRow | None:
        """The row that a change gives, with the end of the log: until the change is done no append is possible."""
        rows = run(statement, values)[1]
        if not rows:
            return None
        shard = ShardRow(*rows[0])
        if not shard.segment:
            return shard._replace(last_seq=0)
        last = run(LAST.format(table=self._segment(shard.segment)), {"start": Int8(FIRST_START)})[1]
        return shard._replace(last_seq=last[0][0]) if last else shard

    def set_meta(self, meta: str) -> bool:
        return self._log.run(META, self._values(meta=meta))[0] == 1

    def begin(self, row: SegmentRow) -> bool:
        return self._log.transact(lambda run: self._begin(run, row))

    def _begin(self, run: Run, row: SegmentRow) -> bool:
        """See begin: the row of the shard first, which all others have to wait for."""
        if run(BEGIN, self._values(segment=Int8(row.segment)))[0] == 0:
            return False
        table = self._segment(row.segment)
        for statement in CREATE_SEGMENT:
            run(statement.format(table=table), None)
        run(HEADER.format(table=table), self._values(seq=Int8(row.seq), data=row.data))
        return True

    def append(self, row: SegmentRow) -> bool:
        if not row.beside:
            return self._append_alone(row)
        pieces = streams.plain(row.beside)
        if pieces is not None:
            return self._append(self._log.run, row, pieces)
        return self._log.transact(lambda run: self._append_all(run, row))

    def _append_alone(self, row: SegmentRow) -> bool:
        """Append a commit batch, which is what most of them are."""
        if self._append_to[0] != row.segment:
            self._append_to = row.segment, APPEND.format(table=self._segment(row.segment), beside="", **BY_NUMBER)
        numbers = [number.to_bytes(8, "big") for number in (self._shard, self._epoch, row.start, row.seq)]
        return self._log.repeat(self._append_to[1], TYPES, [*numbers, row.data]) == 1

    def _append(self, run: Run, row: SegmentRow, pieces: Sequence[SegmentAppend]) -> bool:
        """Append a commit batch, and pieces of streams with it, in one statement."""
        beside, values = streams.puts(self._shard, pieces)
        batch = self._values(start=Int8(row.start), seq=Int8(row.seq), data=row.data)
        statement = APPEND.format(table=self._segment(row.segment), beside=beside, **BY_NAME)
        return run(statement, {**batch, **values})[0] == 1

    def _append_all(self, run: Run, row: SegmentRow) -> bool:
        """Append a commit batch, which keeps others from taking over until the rest is done."""
        if not self._append(run, row, ()):
            return False
        streams.store(run, self._shard, row.beside)
        return True

    def rows(self, segment: int, start: int, size: int) -> list[SegmentRow]:
        values = {"start": Int8(start), "size": Int8(size)}
        return [
            SegmentRow(segment, *row) for row in self._reading.run(ROWS.format(table=self._segment(segment)), values)[1]
        ]

    def header(self, segment: int) -> bytes | None:
        row = self.batch(segment, FIRST_START)
        return None if row is None else bytes(row.data)

    def window(self, segment: int, offset: int, size: int) -> tuple[int, bytes]:
        return offset, window(self._reading.run, self._segment(segment), offset, size)

    def batch(self, segment: int, offset: int) -> SegmentRow | None:
        rows = self._reading.run(BATCH.format(table=self._segment(segment)), {"start": Int8(offset)})[1]
        return SegmentRow(segment, *rows[0]) if rows else None

    def end(self, segment: int) -> int:
        return end(self._reading.run, self._segment(segment))

    def save(self, seq: int, parts: list[Bytes]) -> bool:
        try:
            return self._save(f"leveret_checkpoint_{self._shard}_{self._epoch}_{seq}", parts)
        finally:
            self._upkeep.close()

    def _save(self, table: str, parts: list[Bytes]) -> bool:
        for statement in CREATE_CHECKPOINT:
            self._upkeep.run(statement.format(table=table))
        for number, part in enumerate(in_rows(parts)):
            self._upkeep.run(SAVE_PART.format(table=table), {"part": Int8(number), "data": part})
        if self._upkeep.run(SAVE, self._values(name=table))[0] == 0:
            return False
        self._sweep_checkpoints(table)
        return True

    def load(self, checkpoint: str) -> bytes:
        if not self._tables(checkpoint):
            return b""
        parts: list[bytes] = []
        statement = LOAD_PART.format(table=checkpoint)
        while found := self._reading.run(statement, {"part": Int8(len(parts))})[1]:
            parts.append(found[0][0])
        return b"".join(parts)

    def remove(self, segment: int) -> bool:
        try:
            return self._upkeep.run(REMOVE, self._values(segment=Int8(segment)))[0] == 1
        finally:
            self._upkeep.close()

    def kept(self) -> list[int]:
        numbers = (int(name.rpartition("_")[2]) for name in self._tables(f"leveret_segment_{self._shard}_%"))
        oldest = self.shard().oldest
        return sorted(number for number in numbers if number < oldest)

    def first_header(self, segment: int) -> bytes:
        rows = self._reading.run(FIRST_HEADER.format(table=self._segment(segment)), {"size": Int8(FRAME_HEADER_BYTES)})[
            1
        ]
        return bytes(rows[0][0]) if rows else b""

    def drop(self, segment: int) -> bool:
        try:
            self._upkeep.transact(partial(drop_soon, table=self._segment(segment)))
        except Unknown:
            return False
        finally:
            self._upkeep.close()
        return True

    def cut(self) -> None:
        for session in (self._log, self._reading):
            session.cut()
        self._upkeep.cut(STUCK_US)  # a large checkpoint takes its time, part by part

    def close(self) -> None:
        for session in (self._log, self._reading, self._upkeep):
            session.close()

    def _values(self, **values: object) -> Values:
        """Values of a statement, with the shard and the epoch that was taken."""
        return {"shard": Int8(self._shard), "epoch": Int8(self._epoch), **values}

    def _segment(self, segment: int) -> str:
        return segment_table(self._shard, segment)

    def _tables(self, pattern: str) -> list[str]:
        return tables(self._reading.run, pattern)

    def _sweep(self, shard: ShardRow) -> None:
        """Remove checkpoints that a process left behind which died before it had dropped them."""
        self._sweep_checkpoints(shard.checkpoint)
        self._upkeep.close()

    def _sweep_checkpoints(self, counting: str) -> None:
        """Remove checkpoints that do not count; those of newer owners are theirs."""
        for name in self._tables(f"leveret_checkpoint_{self._shard}_%"):
            if name != counting and int(name.split("_")[3]) <= self._epoch and name not in self._dropping:
                self._dropping.append(name)
        self._drop()

    def _drop(self) -> None:
        """Drop what is not needed, as far as no other session (a backup) reads it: the rest the next time."""
        for name in self._dropping[:]:
            try:
                self._upkeep.transact(partial(drop_soon, table=name))
            except Unknown:
                return
            with suppress(ValueError):  # another session was faster
                self._dropping.remove(name)


def segment_table(shard: int, segment: int) -> str:
    """The table of a segment."""
    return f"leveret_segment_{shard}_{segment}"


def check_alone(run: Run) -> None:
    """Refuse a store that nodes of a cluster share to a single server: it would take a shard from them."""
    rows = run("select cluster from leveret_group_of", {})[1] if tables(run, "leveret_group_of") else []
    if rows:
        raise InvalidArgument(
            f"the store belongs to the cluster '{rows[0][0]}': start a node of it, or give another one"
        )


def create(run: Run) -> None:
    """Make the tables that all shards share; those who do it at the same time wait for each other."""
    run(f"select pg_advisory_xact_lock({SCHEMA_LOCK})", None)
    for statement in (CREATE, streams.CREATE):
        run(statement, None)
