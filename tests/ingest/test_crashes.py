"""Power cuts and kills at every call of the disk while batches are staged, decided on and published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.errors import DamagedJournal
from leveret.core.tables import encode_table
from leveret.ingest import roll_forward, staging
from leveret.ingest.commit_log import CommitLog, CommittedPart, IngestBatch, Sink
from leveret.ingest.quota import Quota, StagingLimits
from leveret.ingest.roll_forward import RollForward
from leveret.ingest.row_groups import constant
from leveret.ingest.staging import Folder, Staging
from leveret.storage.disk import Bytes
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.journal import FileJournal
from leveret.storage.options import StreamOptions
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.store import StreamDirectories, StreamStore
from tests.ingest.batches import bodies, row_group, texts
from tests.sim.node import OPTIONS, Life, clock
from tests.sim.simdisk import SimDisk
from tests.storage.stream.world import drained

SINK = Sink("/", "guest", "s")
LIMITS = StagingLimits(1 << 20, 1 << 20, 1 << 20, 1_000, 1_000, 1 << 40)
SHARES = (CommittedPart("b", 2), CommittedPart("a", 1))
PIECES = {("b", 0): bodies(0, 7), ("b", 1): bodies(7, 5), ("a", 0): bodies(12, 9)}
ROWS = 21
RUNS = [
    ("kill", 0, "a queue"),
    ("power cut", 0, "a queue"),
    ("power cut", 1, "a queue"),
    ("kill", 0, "a stream"),
    ("power cut", 0, "both"),
]
PARTITIONS = 2
TARGETS = {
    "a queue": constant("queue", "orders"),
    "a stream": constant("queue", "log"),
    "both": constant("exchange", "all"),
}
STREAMS = StreamOptions(checkpoint_bytes=1 << 10)


class Cut(Exception):
    """The power went."""


class Power:
    """Cuts the power before or after a call of any of the disks."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self.at = at

    def __call__(self, name: str) -> None:
        self.calls += 1
        if self.calls == self.at:
            raise Cut


class SimHome(StreamDirectories):
    """Simulated disks for the partitions of the one stream."""

    def __init__(self, disks: list[SimDisk]) -> None:
        self._disks = disks

    def partition(self, stream: int, number: int) -> SimDisk:
        return self._disks[number]


class Process(Life):
    """A broker with staged parts, on simulated disks (log, staging, partitions), until the power goes."""

    def __init__(self, disks: list[SimDisk], power: Power, target: str) -> None:
        for disk in disks:
            disk.hook = power
        log, staged, *partitions = disks
        journal = FileJournal(OPTIONS, clock)
        self.core = Broker(journal)
        self.open(log, journal, self.core.restorer, clock, OPTIONS)
        self.streams = StreamStore(self.core, SimHome(partitions), STREAMS)
        self.store.commit.companion = self.streams
        self.core.tick(clock())
        self.staging = Staging(Folder(staged), MasterKeys(), Quota(LIMITS), 0)
        self.commit_log = CommitLog(self.core, 2)
        self.target = target

    def declare(self) -> None:
        """A queue and a stream, and an exchange of both."""
        self.core.declare_queue("/", "orders")
        self.core.declare_queue("/", "log", {"x-queue-type": "stream", "x-partitions": PARTITIONS})
        self.core.declare_exchange("/", "all", "fanout")
        for queue in ("orders", "log"):
            self.core.bind("/", "all", queue)

    def stage(self) -> None:
        """As tasks do."""
        for (part, number), values in PIECES.items():
            keys = texts("headers", [encode_table({"x-partition-key": value.decode()}) for value in values])
            self.staging.put(SINK, part, number, row_group(values, TARGETS[self.target], keys), 0)

    def commit_batch(self, number: int) -> bool:
        """What a commit does when it is asked for, from wherever the last one came to; False: it was done before."""
        known = self.commit_log.find(SINK, number, "")
        if known is not None and known.published:
            return False
        if known is None:
            self.stage()
            self.staging.claim(SINK, SHARES)
            known = IngestBatch(SINK, number, ROWS, 0, shares=SHARES)
            self.commit_log.decide(known)
            self.commit()
        self.roll(known)
        return True

    def roll(self, batch: IngestBatch) -> None:
        """As the server does, also after a start."""
        roll = RollForward(self.commit_log, self.staging, batch, 1_000)
        while not roll.ended:
            roll.load()
            roll.step(self.core)
            self.commit()
            self.compact()
        self.commit_log.finish(batch)
        self.commit()
        self.streams.forget(batch.producer.encode())
        self.staging.release(SINK, SHARES)
        self.staging.drop(SINK, [share.part for share in SHARES])

    def found(self) -> dict[str, list[bytes]]:
        """What queue and stream hold, in order; of the stream partition by partition."""
        queues = self.core.topology.vhost("/").queues
        recorder = queues["log"].recorder
        assert isinstance(recorder, StreamRecorder), "it was declared as one"
        records = [record for log in recorder.logs for record in drained(log.reader(0))]
        waiting = [browse.read(each).body for each in browse.ready_after(queues["orders"], (), 1_000)[0]]
        return {"a queue": waiting, "a stream": [record.content[record.header_len :] for record in records]}


def lives(at: int, seed: int, after: Callable[[SimDisk, Random], SimDisk], target: str) -> tuple[bool, bool]:
    """Commit two batches, the power going once at a call, and Spark repeating what it does not know to be done.

    Gives whether every row is there once, and whether the power went.
    """
    rng = Random(seed)
    disks = [SimDisk() for _ in range(2 + PARTITIONS)]
    first = Process(disks, Power(0), target)
    first.declare()
    first.commit()
    first.streams.close(0)
    first.close()
    try:
        process = Process(disks, Power(at), target)
        process.commit_batch(0)
        process.commit_batch(1)
        process.store.abandon()
        return is_exact(process.found(), target), False
    except Cut:
        pass
    again = Process([after(disk, rng) for disk in disks], Power(0), target)
    for batch in again.commit_log.unfinished():
        again.roll(batch)
    for number in (0, 1):
        again.commit_batch(number)
    assert not again.commit_batch(1)
    found = again.found()
    again.streams.close(0)
    again.close()
    return is_exact(found, target), True


def is_exact(found: dict[str, list[bytes]], target: str) -> bool:
    """Whether the target of two batches has every row of each once, and nobody else has any."""
    expected = {name: bodies(0, ROWS) * 2 if target in (name, "both") else [] for name in found}
    # Partitions of a stream come one after the other.
    return found["a queue"] == expected["a queue"] and Counter(found["a stream"]) == Counter(expected["a stream"])


AFTER: dict[str, Callable[[SimDisk, Random], SimDisk]] = {
    "kill": lambda disk, rng: disk.killed(),
    "power cut": lambda disk, rng: disk.crash(rng),
}


def tried(after: str, seed: int, target: str) -> int:
    """Let the power go at each call in turn; give how often it did."""
    for at in range(1, 10_000):
        exact, cut = lives(at, seed, AFTER[after], target)
        assert exact, f"call {at}: rows are lost or doubled"
        if not cut:
            return at - 1
    raise AssertionError("it does not end")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roll_forward, "CHUNK_ROWS", 4)
    monkeypatch.setattr(roll_forward, "PACKED_ROWS", 4)
    monkeypatch.setattr(roll_forward, "PACKED_ROWS_MIN", 3)


@pytest.mark.parametrize(("after", "seed", "target"), RUNS)
def test_no_row_is_lost_or_doubled_wherever_it_stops(after: str, seed: int, target: str) -> None:
    cuts = tried(after, seed, target)
    print(f"{target}, {after}, seed {seed}: {cuts} runs, lost 0, duplicated 0")
    assert cuts > ROWS


def without_progress(commit_log: CommitLog, batch: IngestBatch, done: int, dropped: int) -> None:
    batch.done, batch.dropped = done, dropped


def without_sync(disk: SimDisk, name: str, *parts: Bytes) -> None:
    fd = disk.open_append(name)
    disk.write(fd, parts)
    disk.close(fd)


def without_producer(commit_log: CommitLog, batch: IngestBatch) -> None:
    batch.producer = ""
    decide(commit_log, batch)


decide = CommitLog.decide


@pytest.mark.parametrize(
    ("target", "mutated", "name", "mutant", "text"),
    [
        ("a queue", CommitLog, "advance", without_progress, "rows"),
        ("a queue", staging, "replace_file", without_sync, "staged|written|short"),
        ("a stream", CommitLog, "decide", without_producer, "rows"),
    ],
)
def test_crashes_find_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, target: str, mutated: object, name: str, mutant: Callable[..., Any], text: str
) -> None:
    monkeypatch.setattr(mutated, name, mutant)
    with pytest.raises((AssertionError, DamagedJournal), match=text):
        tried("power cut", 0, target)
