"""Power cuts and kills at every call of the disk while the encryption key is rotated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext
from itertools import count, takewhile
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.errors import WrongKey
from leveret.core.properties import Properties, content
from leveret.runtime.key_rotation import Rotation
from leveret.runtime.large_bodies import LargeBodies
from leveret.runtime.runtime import Runtime
from leveret.storage.blobs import LocalBlobs
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.files.meta import read_meta
from leveret.storage.journal.journal import FileJournal
from leveret.storage.options import StreamOptions
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.store import StreamStore
from tests.ingest.test_crashes import Cut, Power, SimHome
from tests.sim.node import OPTIONS, Life, clock
from tests.sim.simdisk import SimDisk
from tests.storage.stream.world import drained

OLD, NEW = b"o" * 32, b"n" * 32
MESSAGES, LARGE, RECORDS = 8, 2, 14
BY_ID = {MasterKeys(key).writing.hex(): key for key in (OLD, NEW)}


class Process(Life):
    """A broker on simulated disks (log, large bodies, a stream), encrypted, until the power goes."""

    def __init__(self, disks: list[SimDisk], *keys: bytes, power: Power | None = None) -> None:
        log, bodies, stream = disks
        for disk in disks:
            disk.hook = power or Power(0)
        options = dataclasses.replace(OPTIONS, keys=MasterKeys(*keys))
        journal = FileJournal(options, clock)
        self.core = Broker(journal)
        self.open(log, journal, self.core.restorer, clock, options)
        self.large = LargeBodies(LocalBlobs(bodies), self.store, self.core)
        chosen = StreamOptions(segment_bytes=1 << 10, checkpoint_bytes=1 << 10, keys=options.keys)
        self.streams = StreamStore(self.core, SimHome([stream]), chosen)
        self.store.commit.companion = self.streams
        self.core.tick(clock())

    def fill(self) -> None:
        """Messages, large ones among them, and records in several segments, a producer's among them."""
        self.core.declare_queue("/", "orders")
        self.core.declare_queue("/", "log", {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 1 << 10})
        queues = self.core.topology.vhost("/").queues
        orders, log = queues["orders"], queues["log"]
        for number in range(MESSAGES):
            self.core.publish([orders], orders.route, *content(Properties(), b"order %d " % number + b"x" * 200))
            self.commit()
        for number in range(LARGE):
            pointer = self.large.put(b"large %d" % number, clock())
            self.core.publish([orders], orders.route, *content(Properties(), pointer), blob=True)
        for number in range(RECORDS):
            headers = {"x-producer": "p", "x-sequence": number + 1}
            self.core.publish(
                [log], log.route, *content(Properties(headers=headers), b"event %d " % number + b"y" * 90)
            )
            self.commit()
        self.commit()

    def end(self) -> None:
        """Stop in peace."""
        self.streams.close(0)
        self.close()

    def rotate(self) -> Rotation:
        """Rotate the key, as the housekeeper does."""
        runtime = SimpleNamespace(
            store=self.store, streams=self.streams, large=self.large, core=self.core, lock=nullcontext()
        )
        rotation = Rotation(cast(Runtime, runtime), dict)
        while rotation.step():
            pass
        return rotation

    def found(self) -> tuple[list[bytes], list[bytes]]:
        """All messages and records, in order."""
        queues = self.core.topology.vhost("/").queues
        recorder = queues["log"].recorder
        assert isinstance(recorder, StreamRecorder), "it was declared as one"
        read = [browse.read(each) for each in browse.ready_after(queues["orders"], (), 1_000)[0]]
        bodies = [self.large.get(each.body) if each.body.startswith(b"{") else each.body for each in read]
        return bodies, [each.content[each.header_len :] for log in recorder.logs for each in drained(log.reader(0))]


def lives(at: int, seed: int, after: Callable[[SimDisk, Random], SimDisk]) -> bool:
    """Rotate a key, the power going once at a call; check all that is there with the keys that META names, and go on.

    False when the rotation has ended before.
    """
    rng = Random(seed)
    disks = [SimDisk() for _ in range(3)]
    first = Process(disks, OLD)
    first.fill()
    expected = first.found()
    assert [len(each) for each in expected] == [MESSAGES + LARGE, RECORDS]
    first.end()
    power = Power(at)
    try:
        process = Process(disks, NEW, OLD, power=power)
        assert process.rotate().progress.state == "done"
        process.store.abandon()
        return False
    except Cut:
        pass
    disks = [after(disk, rng) for disk in disks]
    named = [BY_ID[key_id] for key_id in read_meta(disks[0]).keys]
    again = Process(disks, *named)
    assert again.found() == expected, f"cut at {at}, META named {len(named)} keys"
    again.end()
    last = Process(disks, NEW, OLD)
    progress = last.rotate().progress
    assert (progress.state, progress.needed) == ("done", {})
    last.end()
    only = Process(disks, NEW)
    assert only.found() == expected
    only.end()
    with pytest.raises(WrongKey):
        Process(disks, OLD)
    return True


AFTER: dict[str, Callable[[SimDisk, Random], SimDisk]] = {
    "kill": lambda disk, rng: disk.killed(),
    "power cut": lambda disk, rng: disk.crash(rng),
}


@pytest.mark.parametrize(("how", "seed"), [("kill", 0), ("power cut", 0), ("power cut", 1)])
def test_a_rotation_that_is_cut_off_loses_nothing_and_goes_on(how: str, seed: int) -> None:
    cuts = list(takewhile(lambda at: lives(at, seed, AFTER[how]), count(1 + seed, 3 if how == "kill" else 2)))
    assert cuts[-1] > 100


def test_the_simulation_notices_a_key_that_is_forgotten_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Rotation._run

    def early(self: Rotation) -> Any:
        self._forget_keys(set())
        yield from run(self)

    monkeypatch.setattr(Rotation, "_run", early)
    with pytest.raises(WrongKey):
        list(takewhile(lambda at: lives(at, 0, AFTER["kill"]), count(30, 10)))
