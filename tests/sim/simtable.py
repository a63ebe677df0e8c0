"""A database in memory with the faults of a real one: the Table port of leveret.storage.journal.postgres.table over it.

    done       the statement is done, a standby has it, the answer comes
    refused    it is not done, the connection is lost
    unheard    it is done and a standby has it, the answer is lost
    cancelled  it is done, and nobody waited for the standby: a failover may take it back
    ghost      the connection is lost while the statement is under way: it is done later, or never

Commits are in one order, and a standby has the first so many of them: when it has one, it has all before it.
"""

import dataclasses
from collections.abc import Callable
from enum import Enum, auto
from random import Random

from leveret.storage.disk import Bytes
from leveret.storage.journal.postgres.table import FIRST_START, SegmentRow, ShardRow, StreamChange, Unknown

GHOSTS_MAX = 4


class Fate(Enum):
    """What becomes of a statement."""

    DONE = auto()
    REFUSED = auto()
    UNHEARD = auto()
    CANCELLED = auto()
    GHOST = auto()


@dataclasses.dataclass(frozen=True)
class Content:
    """The tables of one shard at one time; every commit makes a new one."""

    shard: ShardRow
    rows: tuple[tuple[int, SegmentRow], ...] = ()
    """With the epoch in which each was appended."""
    checkpoints: tuple[tuple[str, bytes], ...] = ()
    streams: tuple[StreamChange, ...] = ()

    def changed(self, **columns: object) -> "Content":
        """The same with other columns in the row of the shard."""
        return dataclasses.replace(self, shard=self.shard._replace(**columns))  # type: ignore[arg-type]


Change = Callable[[Content], Content | None]
"""From what there is to what there is then; None: no row was touched."""
EMPTY = Content(ShardRow(0, "", 0, 0, 1, "", ""))


class SimDatabase:
    """A primary and its standby; `fate` decides about each statement that changes something."""

    def __init__(self, fate: Callable[[], Fate] = lambda: Fate.DONE) -> None:
        self.fate = fate
        self.commits = [EMPTY]
        self.replicated = 0
        self.ghosts: list[Change] = []

    @property
    def content(self) -> Content:
        """What everybody sees who asks the primary."""
        return self.commits[-1]

    def run(self, change: Change, trusting: bool) -> Content | None:
        """Do a change, with what fate has for it; `trusting` takes a cancelled wait for success, as drivers do."""
        fate = self.fate()
        if fate is Fate.REFUSED:
            raise Unknown("the connection was lost")
        if fate is Fate.GHOST:
            self.ghosts = [*self.ghosts[-GHOSTS_MAX + 1 :], change]
            raise Unknown("the connection was lost, and the statement is under way")
        after = self._commit(change)
        if fate is not Fate.CANCELLED:
            self.replicated = len(self.commits) - 1
        if fate is Fate.UNHEARD or (fate is Fate.CANCELLED and not trusting):
            raise Unknown(f"the outcome is {fate.name}")
        return after

    def _commit(self, change: Change) -> Content | None:
        after = change(self.content)
        if after is not None:
            self.commits.append(after)
        return after

    def haunt(self, random: Random) -> None:
        """One of the statements that were under way is done at last; nobody hears of it."""
        if self.ghosts:
            self._commit(self.ghosts.pop(random.randrange(len(self.ghosts))))

    def fail_over(self, random: Random) -> None:
        """The standby takes over with what it has; whatever else was on the primary is gone."""
        kept = random.randint(self.replicated, len(self.commits) - 1)
        self.commits = self.commits[: kept + 1]
        self.replicated = kept
        self.ghosts.clear()


class SimTable:
    """The connection of one process; Table of leveret.storage.journal.postgres.table says what the methods do."""

    def __init__(self, database: SimDatabase, trusting: bool = False) -> None:
        self._database = database
        self._trusting = trusting
        self._epoch = 0

    def takeover(self, epoch: int | None, owner: str, meta: str) -> ShardRow | None:
        now = self._database.content.shard
        taken = now.epoch + 1 if epoch is None else epoch

        def take(content: Content) -> Content | None:
            shard = content.shard
            if taken < shard.epoch or (taken == shard.epoch and owner != shard.owner):
                return None
            return content.changed(epoch=taken, owner=owner, meta=shard.meta or meta)

        after = self._run(take)
        self._epoch = taken
        return None if after is None else after.shard

    def barrier(self) -> ShardRow | None:
        after = self._run_owned(lambda content: content)
        return None if after is None else after.shard

    def shard(self) -> ShardRow:
        return self._database.content.shard

    def set_meta(self, meta: str) -> bool:
        return self._run_owned(lambda content: content.changed(meta=meta)) is not None

    def begin(self, row: SegmentRow) -> bool:
        def change(content: Content) -> Content | None:
            if content.shard.segment != row.segment - 1:
                return None
            return with_row(content.changed(segment=row.segment), row)

        return self._run_owned(change) is not None

    def append(self, row: SegmentRow) -> bool:
        stored = row._replace(data=bytes(row.data))

        def change(content: Content) -> Content | None:
            if content.shard.last_seq != row.seq - 1:
                return None
            return with_row(content.changed(last_seq=row.seq), stored)

        return self._run_owned(change) is not None

    def rows(self, segment: int, start: int, size: int) -> list[SegmentRow]:
        rows = [row for row in self._segment(segment) if start <= row.start < start + size and row.start > FIRST_START]
        return sorted(rows, key=lambda row: row.start)

    def header(self, segment: int) -> bytes | None:
        return next((bytes(row.data) for row in self._segment(segment) if row.start == FIRST_START), None)

    def window(self, segment: int, offset: int, size: int) -> tuple[int, bytes]:
        whole = b"".join(bytes(row.data) for row in sorted(self._segment(segment), key=lambda row: row.start))
        return offset, whole[offset : offset + size]

    def batch(self, segment: int, offset: int) -> SegmentRow | None:
        before = [row for row in self._segment(segment) if row.start <= offset]
        return max(before, key=lambda row: row.start, default=None)

    def end(self, segment: int) -> int:
        return max((row.start + len(row.data) for row in self._segment(segment)), default=0)

    def save(self, seq: int, parts: list[Bytes]) -> bool:
        name, data = f"{self._epoch}_{seq}", b"".join(bytes(part) for part in parts)

        def change(content: Content) -> Content | None:
            return dataclasses.replace(content.changed(checkpoint=name), checkpoints=((name, data),))

        return self._run_owned(change) is not None

    def load(self, checkpoint: str) -> bytes:
        return dict(self._database.content.checkpoints).get(checkpoint, b"")

    def remove(self, segment: int) -> bool:
        def change(content: Content) -> Content | None:
            return content.changed(oldest=segment + 1)

        return self._run_owned(change) is not None

    def kept(self) -> list[int]:
        content = self._database.content
        return sorted({row.segment for _, row in content.rows if row.segment < content.shard.oldest})

    def first_header(self, segment: int) -> bytes:
        row = min((row for row in self._segment(segment) if row.start), key=lambda row: row.start, default=None)
        return b"" if row is None else bytes(row.data)

    def drop(self, segment: int) -> bool:
        def change(content: Content) -> Content | None:
            left = tuple(each for each in content.rows if each[1].segment != segment)
            return dataclasses.replace(content, rows=left)

        return self._run(change) is not None

    def cut(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _segment(self, segment: int) -> list[SegmentRow]:
        return [row for _, row in self._database.content.rows if row.segment == segment]

    def _run(self, change: Change) -> Content | None:
        return self._database.run(change, self._trusting)

    def _run_owned(self, change: Change) -> Content | None:
        """A change by whoever owns the epoch that was taken here."""
        epoch = self._epoch
        return self._run(lambda content: change(content) if content.shard.epoch == epoch else None)


def with_row(content: Content, row: SegmentRow) -> Content:
    """One row more; no two begin at the same place."""
    assert all((old.segment, old.start) != (row.segment, row.start) for _, old in content.rows), "a row is there"
    rows = (*content.rows, (content.shard.epoch, row))
    return dataclasses.replace(content, rows=rows, streams=(*content.streams, *row.beside))
