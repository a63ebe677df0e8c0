"""Whatever is done, and wherever the process ends: a reopened journal gives the state that was in memory."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.storage.encryption import MasterKeys
from tests.storage.journal.world import QuickDisk, World

QUEUES = st.integers(1, 12)
OPTIONS: list[dict[str, Any]] = [
    {"segment_bytes": 1024},
    {"segment_bytes": 4096, "cache_bytes": 1},
    {"segment_bytes": 1024, "cache_bytes": 300, "sync": "never"},
    {"segment_bytes": 2048, "cache_bytes": 1, "keys": MasterKeys(b"k" * 32)},
]


class Reopening(RuleBasedStateMachine):
    """Does what an owner may do, in any order."""

    @initialize(options=st.sampled_from(OPTIONS))
    def begin(self, options: dict[str, Any]) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.options = options
        self.world = self.open()

    def open(self) -> World:
        return World(QuickDisk(Path(self.directory.name)), **self.options)

    def pick(self, data: st.DataObject) -> tuple[int, int]:
        """Some message in some queue."""
        places = sorted((queue, seq) for queue, messages in self.world.state.queues.items() for seq in messages)
        return data.draw(st.sampled_from(places))

    def has_messages(self) -> bool:
        return any(self.world.state.queues.values())

    @rule(
        queues=st.lists(QUEUES, min_size=1, max_size=12, unique=True),
        body=st.binary(max_size=300),
        numbers=st.tuples(*[st.integers(0, 2**64 - 1)] * 3),
        priority=st.integers(0, 255),
    )
    def publish(self, queues: list[int], body: bytes, numbers: tuple[int, int, int], priority: int) -> None:
        expiry_ms, due_ms, group = numbers
        facts = {"expiry_ms": expiry_ms, "due_ms": due_ms, "group": group, "priority": priority}
        self.world.publish(body, tuple(queues), **facts)

    @precondition(has_messages)
    @rule(data=st.data(), how=st.integers(0, 8), at_ms=st.integers(0, 2**48 - 1))
    def settle(self, data: st.DataObject, how: int, at_ms: int) -> None:
        self.world.state.settle(*self.pick(data), how=how, at_ms=at_ms)

    @precondition(has_messages)
    @rule(data=st.data(), back=st.booleans(), due_ms=st.integers(0, 2**64 - 1))
    def deliver(self, data: st.DataObject, back: bool, due_ms: int) -> None:
        place = self.pick(data)
        self.world.state.deliver(*place)
        if back:
            self.world.state.give_back(*place, due_ms=due_ms)

    @rule(queue=QUEUES, keep=st.integers(0, 3))
    def purge(self, queue: int, keep: int) -> None:
        self.world.state.purge(queue, sorted(self.world.state.queues.get(queue, {}))[:keep])

    @rule(what=st.integers(1, 255), payload=st.binary(max_size=40))
    def define(self, what: int, payload: bytes) -> None:
        self.world.state.define(what, payload)

    @rule(queue=QUEUES, digest=st.binary(min_size=16, max_size=16), at_ms=st.integers(0, 2**64 - 1))
    def deduplicate(self, queue: int, digest: bytes, at_ms: int) -> None:
        self.world.state.deduplicate(queue, digest, self.world.state.seq, at_ms)

    @rule()
    def commit(self) -> None:
        self.world.commit.flush()

    @rule()
    def begin_segment(self) -> None:
        self.world.journal.begin_segment()

    @rule()
    def checkpoint(self) -> None:
        self.world.store.checkpoint()

    @rule(budget_bytes=st.integers(1, 2000))
    def compact(self, budget_bytes: int) -> None:
        self.world.store.compact(budget_bytes)

    @rule(clean=st.booleans())
    def reopen(self, clean: bool) -> None:
        self.world.commit.flush()
        facts, counts = self.world.facts(), self.live()
        if clean:
            self.world.close()
        else:
            self.world.kill()
        self.world = self.open()
        assert self.world.facts() == facts
        assert self.live() == counts

    def live(self) -> dict[int, int]:
        """Live records by segment as the state knows them: what the journal counts may still include copied ones."""
        return {segment: count for segment, count in self.world.state.recovered(0).items() if count}

    @invariant()
    def counts_are_right(self) -> None:
        counted = self.world.journal.counts()[0]
        for segment, count in self.live().items():
            assert counted.get(segment, 0) >= count

    def teardown(self) -> None:
        if hasattr(self, "world"):
            with self.directory:
                self.reopen(clean=False)
                self.world.close()


Reopening.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
test_reopening = Reopening.TestCase
