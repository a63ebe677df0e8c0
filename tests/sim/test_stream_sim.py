"""Processes that take a store with a stream from each other, on a database with every fault.

A record that was confirmed is there once, at its offset; one that was read stays what it was.
"""

import threading
from contextlib import suppress
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from leveret.core.broker import Broker
from leveret.core.errors import DamagedJournal, Fenced
from leveret.core.properties import Properties, content
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.postgres.store import TableStore, Takeover
from leveret.storage.journal.postgres.table import SegmentKey, StoredSegment
from leveret.storage.options import JournalOptions, StreamOptions
from leveret.storage.stream.postgres import TableStreamDirectories
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.store import StreamStore
from tests.sim.contest import Contest
from tests.sim.mistake import is_found
from tests.sim.simtable import SimDatabase, SimTable
from tests.storage.stream.tables import MemoryStreams
from tests.storage.stream.world import drained

STEPS = 30
SEEDS = 300
PARTITIONS = 2
ARGUMENTS = {
    "x-queue-type": "stream",
    "x-partitions": PARTITIONS,
    "x-max-length-bytes": 4 << 10,
    "x-stream-max-segment-size-bytes": 1 << 10,
}
Place = tuple[int, int]


class SimStreams(MemoryStreams):
    """The streams that a database has when it is asked."""

    def __init__(self, database: SimDatabase) -> None:
        super().__init__()
        self._database = database

    def _look(self) -> None:
        self.bytes, self.indexes = {}, {}
        self.store(self._database.content.streams)

    def segments(self) -> list[StoredSegment]:
        self._look()
        return super().segments()

    def read(self, segment: SegmentKey, start: int, size: int) -> bytes:
        self._look()
        return super().read(segment, start, size)

    def index(self, segment: SegmentKey) -> bytes | None:
        self._look()
        return super().index(segment)

    def drop(self, segment: SegmentKey) -> bool:
        return True


class Process:
    """A broker with a stream, until it is killed."""

    def __init__(self, simulation: "Simulation", owner: str) -> None:
        self.now_ms = 1_000
        journal = FileJournal(JournalOptions(segment_bytes=1 << 10), lambda: self.now_ms)
        self.core = Broker(journal)
        self.store = TableStore(
            SimTable(simulation.database, simulation.trusting),
            journal,
            self.core.restorer,
            threading.Lock(),
            lambda: self.now_ms,
            JournalOptions(segment_bytes=1 << 10),
            claim=Takeover(owner),
            threaded=False,
            on_failure=lambda error: None,
            pause=simulation.pause,
        )
        home = TableStreamDirectories(SimStreams(simulation.database), self.store.questions)
        self.store.store_beside(home.changes)
        self.streams = StreamStore(self.core, home, StreamOptions(checkpoint_bytes=2 << 10))
        self.store.commit.companion = self.streams
        self.core.tick(self.now_ms)
        self.queue = self.core.declare_queue("/", "s", ARGUMENTS)
        self.store.commit.flush()

    @property
    def recorder(self) -> StreamRecorder:
        assert isinstance(self.queue.recorder, StreamRecorder)
        return self.queue.recorder

    def append(self, body: bytes) -> Place:
        """Append a record, which is not durable yet, and say where it is."""
        self.core.publish([self.queue], b"\0\1s", *content(Properties(), body))
        return self.recorder.partition, self.recorder.offset

    def records(self) -> dict[Place, bytes]:
        """All that can be read."""
        return {
            (number, record.offset): record.body
            for number, log in enumerate(self.recorder.logs)
            for record in drained(log.reader(0))
        }

    def kill(self) -> None:
        self.streams.abandon()
        self.store.abandon()


class Simulation(Contest[Process]):
    """What clients were told, and what readers saw."""

    def __init__(self, random: Random, trusting: bool = False) -> None:
        super().__init__(random, trusting)
        self.sent = 0
        self.confirmed: dict[Place, bytes] = {}
        self.seen: dict[Place, bytes] = {}

    def open(self, owner: str) -> Process:
        return Process(self, owner)

    def act(self, process: Process) -> None:
        chance = self.random.random()
        if chance < 0.1:
            process.store.checkpoint()
        elif chance < 0.2:
            process.streams.retain(process.now_ms)
        elif chance < 0.4:
            self.read(process)
        else:
            self.send(process)

    def watch(self) -> None:
        for process in self.processes.values():
            with suppress(Fenced):
                self.read(process)

    def send(self, process: Process) -> None:
        told = {}
        for _ in range(self.random.randint(1, 5)):
            self.sent += 1
            body = b"%d " % self.sent * self.random.randint(1, 40)
            told[process.append(body)] = body
        process.store.commit.flush()
        self.confirmed.update(told)

    def read(self, process: Process) -> None:
        try:
            found = process.records()
        except DamagedJournal:
            assert process.store.epoch < self.database.content.shard.epoch, "an owner can read what it has"
            raise Fenced("somebody else has removed what is to be read") from None
        self.note(found)

    def note(self, found: dict[Place, bytes]) -> None:
        for place, body in found.items():
            assert self.seen.setdefault(place, body) == body, "a record that was read has changed"

    def check(self, last: Process) -> None:
        found = last.records()
        first = [log.first_offset for log in last.recorder.logs]
        self.note(found)
        for place, body in {**self.seen, **self.confirmed}.items():
            assert place[1] < first[place[0]] or found.get(place) == body, "a record is lost"
        assert len(set(found.values())) == len(found), "a record is there twice"


@given(st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_no_record_is_lost_or_changed_whatever_the_database_does(random: Random) -> None:
    Simulation(random).run(STEPS)


def test_a_cancelled_wait_that_is_taken_for_success_would_lose_records() -> None:
    assert is_found(lambda random: Simulation(random, trusting=True).run(STEPS), SEEDS)
