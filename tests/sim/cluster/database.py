"""A PostgreSQL with a standby, as far as journals can tell: rows, locks, the wait for the standby, and what breaks it.

A change is written to the log (its place is the LSN), waits there until the standby has it, and only then becomes
visible, lets go of the lock on its shard and is answered. Faults:

    stall      the standby takes nothing for a while: changes hang
    cancel     a wait is cancelled: the change is visible, and answered with a warning, though the standby lacks it
    failover   the standby is the primary now, with all that was acknowledged and any part of what was not
    lost       a request or an answer is lost with its connection; the statement may be done much later, or never
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leveret.storage.journal.postgres.table import SegmentRow, ShardRow
from tests.sim.cluster.history import History
from tests.sim.cluster.loop import Loop

LOST_MS_MAX = 8_000
DOWN_MS_MAX = 3_000
LOST_SHARES = (0.005, 0.02, 0.06)


@dataclass
class State:
    """One shard, as committed changes made it."""

    shard: ShardRow
    segments: dict[int, dict[int, SegmentRow]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)
    """Of each frame, by its number."""
    checkpoints: dict[str, bytes] = field(default_factory=dict)

    def change(self, **values: Any) -> None:
        """Other values in the row of the shard."""
        self.shard = self.shard._replace(**values)


Change = Callable[[State], Any]
"""Does what a statement does, and gives its answer."""


class Statement(NamedTuple):
    """What is to be done to a shard: `decide` looks at it under its lock, and gives the change or None."""

    shard: int
    decide: Callable[[State], Change | None]
    answer: Callable[[Any, bool], None]
    """Gets the answer, and whether a warning came with it."""
    lose: Callable[[], None]
    note: Callable[[State], None] = lambda state: None
    """Told about the shard just before the change is made for the first time."""
    impatient: bool = False
    """Whether it does not wait for the lock, as no statement of ours should."""
    batch: int = 0
    """The number of the commit batch that it appends."""


class Record(NamedTuple):
    """A change in the log, and the statement that waits for the standby to have it."""

    shard: int
    change: Change
    statement: Statement


@dataclass
class Lock:
    """Who changes a shard, and who waits to."""

    holders: list[Record] = field(default_factory=list)
    """One at most, but for impatient ones."""
    waiting: list[Statement] = field(default_factory=list)


class Database:
    """The primary and its standby."""

    def __init__(self, loop: Loop, shards: int, history: History) -> None:
        self.loop = loop
        self.history = history
        self.up = True
        self.generation = 0
        self._count = shards
        self._stalled_ms = 0
        self._log: list[Record] = []
        self._acknowledged = 0
        self._places: dict[tuple[int, int], int] = {}
        self.lost_share = loop.random.choice(LOST_SHARES)
        self._rebuild()

    def _rebuild(self) -> None:
        """The state that the log makes."""
        empty = ShardRow(0, "", 0, 0, 1, "", "")
        self.states = [State(empty) for _ in range(self._count)]
        self._locks = [Lock() for _ in range(self._count)]
        for record in self._log:
            record.change(self.states[record.shard])

    # Statements

    def submit(self, statement: Statement) -> None:
        """A statement was sent."""
        generation = self.generation
        random = self.loop.random
        if random.random() < self.lost_share:
            self.loop.after(random.randrange(1, LOST_MS_MAX), statement.lose)
            if random.random() < 0.5:
                return
            # It is only the answer that nobody will hear; the request may come when everybody has forgotten it.
            late_ms = random.choice((1, 10, 2_000, 6_000, 12_000))
            statement = statement._replace(answer=lambda answer, warned: None, lose=lambda: None)
            self.loop.after(late_ms, lambda: self._arrived(statement, generation))
        else:
            self.loop.after(self.loop.delay_ms(), lambda: self._arrived(statement, generation))

    def _arrived(self, statement: Statement, generation: int) -> None:
        if not self.up or generation != self.generation:
            self.loop.after(self.loop.delay_ms(), statement.lose)
            return
        lock = self._locks[statement.shard]
        if lock.holders and not statement.impatient:
            lock.waiting.append(statement)
        else:
            self._begin(statement)

    def _begin(self, statement: Statement) -> None:
        change = statement.decide(self.states[statement.shard])
        if change is None:
            self._answer(statement, None, False)
            return
        record = Record(statement.shard, change, statement)
        self._locks[statement.shard].holders.append(record)
        self._log.append(record)
        if statement.batch:
            self._places[statement.shard, statement.batch] = len(self._log)
        self._replicate(len(self._log))

    def _replicate(self, lsn: int) -> None:
        generation = self.generation
        delay_ms = max(0, self._stalled_ms - self.loop.now_ms) + self.loop.delay_ms()
        self.loop.after(delay_ms, lambda: self._replicated(lsn, generation))

    def _replicated(self, lsn: int, generation: int) -> None:
        """The standby has the log up to here."""
        if generation != self.generation:
            return
        if self.loop.now_ms < self._stalled_ms:
            self._replicate(lsn)
            return
        while self._acknowledged < lsn:
            record = self._log[self._acknowledged]
            self._acknowledged += 1
            if record in self._locks[record.shard].holders:
                self._commit(record, False)

    def _commit(self, record: Record, warned: bool) -> None:
        """Let a change be seen, and the next one begin."""
        lock = self._locks[record.shard]
        lock.holders.remove(record)
        state = self.states[record.shard]
        record.statement.note(state)
        self._answer(record.statement, record.change(state), warned)
        while lock.waiting and not lock.holders:
            self._begin(lock.waiting.pop(0))

    def _answer(self, statement: Statement, answer: Any, warned: bool) -> None:
        self.loop.after(self.loop.delay_ms(), lambda: statement.answer(answer, warned))

    def read(self, look: Callable[[], Any], answer: Callable[[Any], None], lose: Callable[[], None]) -> None:
        """Look at what is committed."""
        lost = not self.up or self.loop.random.random() < self.lost_share
        self.loop.after(self.loop.delay_ms(), lose if lost else lambda: answer(look()))

    def durable(self, shard: int, seq: int) -> bool:
        """Whether a frame is where no failover can take it away."""
        return self._places.get((shard, seq), len(self._log) + 1) <= self._acknowledged

    # Faults

    def stall(self, duration_ms: int) -> None:
        """The standby takes nothing for a while."""
        self._stalled_ms = max(self._stalled_ms, self.loop.now_ms + duration_ms)

    def cancel(self) -> None:
        """Cancel every wait for the standby."""
        for lock in self._locks:
            for record in list(lock.holders):
                self._commit(record, True)

    def fail_over(self) -> None:
        """The standby takes the place of the primary, which takes a while."""
        kept = self.loop.random.randint(self._acknowledged, len(self._log))
        waiting = [record.statement for lock in self._locks for record in lock.holders]
        waiting += [statement for lock in self._locks for statement in lock.waiting]
        self.generation += 1
        self.up = False
        self._log = self._log[:kept]
        self._acknowledged = kept
        self._places = {frame: lsn for frame, lsn in self._places.items() if lsn <= kept}
        self.history.forget_appends()
        self._rebuild()
        for statement in waiting:
            self.loop.after(self.loop.random.randrange(1, DOWN_MS_MAX), statement.lose)
        self.loop.after(self.loop.random.randrange(10, DOWN_MS_MAX), self._come_up)

    def _come_up(self) -> None:
        self.up = True

    def heal(self) -> None:
        """No more faults."""
        self.lost_share = 0
        self._stalled_ms = 0
