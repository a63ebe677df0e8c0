"""The statements of leveret.storage.journal.postgres.table on the simulated database, as a process sends them."""

from collections.abc import Callable
from typing import Any

from leveret.storage.disk import Bytes
from leveret.storage.journal.postgres.table import FIRST_START, SegmentRow, ShardRow, Unknown
from tests.sim.cluster.database import Change, Database, State, Statement
from tests.sim.cluster.loop import Process

LOST = object()


class SimTable:
    """One shard, for one process; Table of leveret.storage.journal.postgres.table says what the methods do."""

    def __init__(self, process: Process, database: Database, shard: int) -> None:
        self._process = process
        self._database = database
        self._shard = shard
        self._epoch = 0

    # What mutants get wrong

    impatient = False

    def is_mine(self, state: State) -> bool:
        """The condition of every change."""
        return state.shard.epoch == self._epoch

    def may_take(self, state: State, epoch: int, owner: str) -> bool:
        """The condition of a takeover."""
        return epoch > state.shard.epoch or (epoch, owner) == (state.shard.epoch, state.shard.owner)

    def follows(self, state: State, row: SegmentRow) -> bool:
        """The condition of an append beside its epoch."""
        return state.shard.last_seq == row.seq - 1

    def trusts(self, warned: bool) -> bool:
        """Whether an answer counts as one."""
        return not warned

    # Statements

    def takeover(self, epoch: int | None, owner: str, meta: str) -> ShardRow | None:
        """See Table."""
        assert epoch is not None, "the coordinator gives an epoch"

        def change(state: State) -> ShardRow:
            state.change(epoch=epoch, owner=owner, meta=state.shard.meta or meta)
            return state.shard

        def note(state: State) -> None:
            self._database.history.taken(self._shard, state.shard.epoch, epoch)

        decide = lambda state: change if self.may_take(state, epoch, owner) else None  # noqa: E731
        found: ShardRow | None = self._write(decide, note=note, impatient=self.impatient)
        if found is not None:
            self._epoch = epoch
        return found

    def barrier(self) -> ShardRow | None:
        """See Table."""
        found: ShardRow | None = self._write(lambda state: (lambda state: state.shard) if self.is_mine(state) else None)
        return found

    def shard(self) -> ShardRow:
        """See Table."""
        found: ShardRow = self._read(lambda state: state.shard)
        return found

    def set_meta(self, meta: str) -> bool:
        """See Table."""

        def change(state: State) -> bool:
            state.change(meta=meta)
            return True

        return self._change(change)

    def begin(self, row: SegmentRow) -> bool:
        """See Table."""

        def change(state: State) -> bool:
            state.change(segment=row.segment)
            state.segments[row.segment] = {row.start: row}
            return True

        return self._change(change, lambda state: state.shard.segment == row.segment - 1)

    def append(self, row: SegmentRow) -> bool:
        """See Table."""
        row = row._replace(data=bytes(row.data))  # the journal writes the next frame into the same memory
        epoch = self._epoch

        def note(state: State) -> None:
            self._database.history.appended(self._shard, row.seq, epoch, state.shard)

        def change(state: State) -> bool:
            state.change(last_seq=row.seq)
            state.segments.setdefault(row.segment, {})[row.start] = row
            state.epochs[row.seq] = epoch
            return True

        return self._change(change, lambda state: self.follows(state, row), note=note, batch=row.seq)

    def save(self, seq: int, parts: list[Bytes]) -> bool:
        """See Table."""
        name, data = f"{self._epoch}-{seq}", b"".join(parts)

        def change(state: State) -> bool:
            state.checkpoints = {name: data}
            state.change(checkpoint=name)
            return True

        return self._change(change)

    def remove(self, segment: int) -> bool:
        """See Table."""

        def change(state: State) -> bool:
            state.change(oldest=max(state.shard.oldest, segment + 1))
            return True

        return self._change(change)

    def kept(self) -> list[int]:
        """See Table."""
        found: list[int] = self._read(
            lambda state: sorted(number for number in state.segments if number < state.shard.oldest)
        )
        return found

    def first_header(self, segment: int) -> bytes:
        """See Table."""
        frames = self._frames(segment)
        return bytes(frames[min(frames.keys() - {FIRST_START})].data) if len(frames) > 1 else b""

    def drop(self, segment: int) -> bool:
        """See Table."""

        def change(state: State) -> bool:
            state.segments.pop(segment, None)
            return True

        try:
            return self._change(change)
        except Unknown:
            return False

    def rows(self, segment: int, start: int, size: int) -> list[SegmentRow]:
        """See Table."""
        frames = self._frames(segment)
        return [frames[each] for each in sorted(frames) if max(start, 1) <= each < start + size]

    def header(self, segment: int) -> bytes | None:
        """See Table."""
        row = self.batch(segment, FIRST_START)
        return None if row is None else bytes(row.data)

    def window(self, segment: int, offset: int, size: int) -> tuple[int, bytes]:
        """See Table."""
        frames = self._frames(segment)
        data = b"".join(bytes(frames[start].data) for start in sorted(frames))
        return offset, data[offset : offset + size]

    def batch(self, segment: int, offset: int) -> SegmentRow | None:
        """See Table."""
        frames = self._frames(segment)
        start = max((start for start in frames if start <= offset), default=None)
        return None if start is None else frames[start]

    def end(self, segment: int) -> int:
        """See Table."""
        return max((start + len(row.data) for start, row in self._frames(segment).items()), default=0)

    def load(self, checkpoint: str) -> bytes:
        """See Table."""
        found: bytes = self._read(lambda state: state.checkpoints.get(checkpoint, b""))
        return found

    def cut(self) -> None:
        """Nobody waits: a fiber that is here has the whole process."""

    def close(self) -> None:
        """There is no connection to end."""

    # Sending

    def _frames(self, segment: int) -> dict[int, SegmentRow]:
        found: dict[int, SegmentRow] = self._read(lambda state: dict(state.segments.get(segment, {})))
        return found

    def _change(self, change: Change, condition: Callable[[State], bool] = lambda state: True, **told: Any) -> bool:
        decide = lambda state: change if self.is_mine(state) and condition(state) else None  # noqa: E731
        return bool(self._write(decide, **told))

    def _write(self, decide: Callable[[State], Change | None], **told: Any) -> Any:
        def begin(wake: Callable[[Any], None]) -> None:
            heard = Once(wake)
            answer = lambda answer, warned: heard(answer if self.trusts(warned) else LOST)  # noqa: E731
            self._database.submit(Statement(self._shard, decide, answer, lambda: heard(LOST), **told))

        return self._heard(self._process.wait(begin))

    def _read(self, look: Callable[[State], Any]) -> Any:
        def begin(wake: Callable[[Any], None]) -> None:
            self._database.read(lambda: look(self._database.states[self._shard]), wake, lambda: wake(LOST))

        return self._heard(self._process.wait(begin))

    def _heard(self, answer: Any) -> Any:
        if answer is LOST:
            raise Unknown("the connection was lost")
        return answer


class Once:
    """Wakes a fiber, once: an answer may come after its connection was given up."""

    def __init__(self, wake: Callable[[Any], None]) -> None:
        self._wake: Callable[[Any], None] | None = wake

    def __call__(self, answer: Any) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake(answer)
