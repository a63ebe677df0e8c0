"""The broker against its reference, in memory and on a disk from which it comes back after crashes."""

import copy
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.core import browse
from leveret.core.errors import QueueFull
from leveret.core.held import Held
from leveret.core.queue import Queue
from leveret.storage.journal.journal import FileJournal
from tests.core.world import World, text
from tests.model.reference import NEVER, Item, Line, Reference, Rules

TO_DLQ = {"dead_letter_exchange": "", "dead_letter_routing_key": "dlq"}
KINDS: dict[str, tuple[dict[str, Any], Rules]] = {
    "dlq": ({}, Rules(ordered=False)),
    "plain": ({"deduplication_window": 20}, Rules(window_ms=20)),
    "ranked": ({"max_priority": 2}, Rules(max_priority=2)),
    "mortal": ({"message_ttl": 15, "max_priority": 1, **TO_DLQ}, Rules(1, ttl_ms=15, dead_letters="dlq")),
    "short": ({"max_length": 3, "max_priority": 1, **TO_DLQ}, Rules(1, max_length=3, dead_letters="dlq")),
    "full": ({"max_length": 2, "overflow": "reject-publish"}, Rules(max_length=2, rejects=True)),
    "tried": ({"max_receive_count": 2, **TO_DLQ}, Rules(max_receives=2, dead_letters="dlq")),
    "late": ({"delay": 5}, Rules(delay_ms=5)),
    "grouped": ({"message_groups": "fifo"}, Rules(grouped=True)),
    "batched": ({"message_groups": "fifo-batch"}, Rules(grouped=True, batched=True)),
}
FANNED = ("plain", "mortal", "late", "grouped", "batched")
picks = st.integers(0, 20)
delays_ms = st.sampled_from([0, 0, 3, 9])


Facts = list[tuple[str, int, int, int, int]]


def facts(items: list[Item]) -> Facts:
    """What the reference knows of messages: body, deliveries, priority, place and expiry."""
    return [
        (item.body, item.deliveries, item.priority, item.ready_ms, item.expiry_ms if item.expiry_ms < NEVER else 0)
        for item in items
    ]


def seen(held: list[Held]) -> Facts:
    """The same of the broker's messages."""
    return [(text(each), each.deliveries, each.priority, each.ready_ms, each.expiry_ms) for each in held]


@dataclass
class Sent:
    """How a message is sent."""

    priority: int
    ttl_ms: int
    delay_ms: int
    key: bytes | None
    persistent: bool
    group: int


messages = st.builds(
    Sent,
    priority=st.integers(0, 3),
    ttl_ms=st.sampled_from([0, 0, 0, 4, 30]),
    delay_ms=delays_ms,
    key=st.sampled_from([None, None, None, b"k" * 16, b"l" * 16]),
    persistent=st.sampled_from([True, True, True, False]),
    group=st.integers(1, 3),
)


class InMemory(RuleBasedStateMachine):
    """Every verb on every kind of queue."""

    world: World
    directory: tempfile.TemporaryDirectory[str] | None = None

    # A few queues at a time, or hardly two steps would meet in one.
    @initialize(names=st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
    def start(self, names: set[str]) -> None:
        self.world = World(None if self.directory is None else Path(self.directory.name))
        self.model = Reference(self.world.now_ms)
        self.names = sorted(names)
        for name in sorted(names | {"dlq", "plain"}):
            arguments, rules = KINDS[name]
            self.world.queue(name, **arguments)
            self.model.lines[name] = Line(rules)
        self.fanned = [name for name in self.names if name in FANNED]
        for name in self.fanned:
            self.world.broker.bind("/", "amq.topic", name, "#.all")
        self.count = 0
        self.durable = copy.deepcopy(self.model)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.close()
        if self.directory is not None:
            self.directory.cleanup()

    def queue(self, name: str) -> Queue:
        return self.world.again(name)

    def body(self) -> str:
        self.count += 1
        return f"{self.count:03d} " + "x" * (self.count % 7 * 20)

    def some(self, state: str) -> list[tuple[str, Held]]:
        """Every message that is in a state, with its queue."""
        return [(name, held) for name in self.model.lines for held in browse.holdings(self.queue(name), state)]

    def picked(self, state: str, pick: int) -> tuple[str, Held, Item]:
        """One message that is in a state: its queue, and itself on both sides."""
        found = self.some(state)
        name, held = found[pick % len(found)]
        body = text(held)
        return name, held, next(item for item in self.model.lines[name].items if item.body == body)

    @rule(pick=picks, burst=st.lists(messages, min_size=1, max_size=5))
    def send(self, pick: int, burst: list[Sent]) -> None:
        name = self.names[pick % len(self.names)]
        for sent in burst:
            body = self.body()
            # A delayed one that was delivered before a crash enters again after it, and may push others out.
            delay_ms = sent.delay_ms if self.model.lines[name].rules.max_length == NEVER else 0
            try:
                self.world.send(
                    self.queue(name), body, priority=sent.priority, key=sent.key, persistent=sent.persistent,
                    expiry_ms=sent.ttl_ms and self.model.now_ms + sent.ttl_ms, group=sent.group,
                    due_ms=delay_ms and self.model.now_ms + delay_ms,
                )  # fmt: skip
            except QueueFull:
                assert self.model.lines[name].rules.rejects
            self.model.send([name], body, **{**vars(sent), "delay_ms": delay_ms})

    @precondition(lambda self: self.fanned)
    @rule(priority=st.integers(0, 2), delay_ms=delays_ms, persistent=st.booleans(), group=st.integers(0, 2))
    def fan_out(self, priority: int, delay_ms: int, persistent: bool, group: int) -> None:
        body, due_ms = self.body(), delay_ms and self.model.now_ms + delay_ms
        self.world.publish(
            "amq.topic", "to.all", body, priority=priority, due_ms=due_ms, persistent=persistent, group=group
        )
        self.model.send(self.fanned, body, priority, 0, delay_ms, None, persistent, group)

    def takeable(self) -> list[str]:
        """The queues from which something can be taken."""
        return [name for name, line in self.model.lines.items() if line.next([])]

    @precondition(lambda self: bool(self.takeable()))
    @rule(pick=picks, count=st.integers(1, 4), lease_ms=st.integers(1, 40))
    def take(self, pick: int, count: int, lease_ms: int) -> None:
        name = self.takeable()[pick % len(self.takeable())]
        bodies = [text(held) for held in self.queue(name).take(count, lease_ms)]
        self.model.take(name, bodies, count, lease_ms)

    @precondition(lambda self: self.some("leased"))
    @rule(pick=picks)
    def ack(self, pick: int) -> None:
        name, held, item = self.picked("leased", pick)
        self.queue(name).ack(held, held.lease)
        self.model.lines[name].items.remove(item)

    @precondition(lambda self: self.some("leased"))
    @rule(pick=picks, delay_ms=delays_ms)
    def nack(self, pick: int, delay_ms: int) -> None:
        name, held, item = self.picked("leased", pick)
        self.world.broker.nack(self.queue(name), held, held.lease, delay_ms)
        self.model.give_back(name, item, delay_ms)

    @precondition(lambda self: self.some("leased"))
    @rule(pick=picks)
    def reject(self, pick: int) -> None:
        name, held, item = self.picked("leased", pick)
        self.queue(name).reject(held, held.lease)
        self.model.die(name, item, "rejected")

    @precondition(lambda self: self.some("leased"))
    @rule(pick=picks, lease_ms=st.integers(1, 30))
    def extend(self, pick: int, lease_ms: int) -> None:
        name, held, item = self.picked("leased", pick)
        self.queue(name).extend(held, held.lease, lease_ms)
        item.lease_until_ms = self.model.now_ms + lease_ms

    @precondition(lambda self: self.some("scheduled"))
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        name, held, item = self.picked("scheduled", pick)
        assert browse.cancel(self.queue(name), held.seq)
        self.model.lines[name].items.remove(item)

    @precondition(lambda self: any(len(self.model.lines[name].ready()) > 3 for name in self.names))
    @rule()
    def purge(self) -> None:
        name = max(self.names, key=lambda each: len(self.model.lines[each].ready()))
        line = self.model.lines[name]
        assert browse.purge(self.queue(name)) == len(line.ready())
        line.items = [item for item in line.items if not item.ready]

    @precondition(lambda self: any(self.model.lines[name].items for name in self.names))
    @rule(pick=picks, paused=st.sampled_from([False, False, False, True]))
    def pause_or_resume(self, pick: int, paused: bool) -> None:
        name = self.names[pick % len(self.names)]
        self.model.lines[name].paused = paused
        self.world.broker.pause_queue(self.queue(name), paused)
        assert not paused or not self.queue(name).take(1)

    @precondition(lambda self: self.model.lines["dlq"].ready())
    @rule(pick=picks)
    def redrive(self, pick: int) -> None:
        waiting, _ = browse.ready_after(self.queue("dlq"), (), 100)
        body = text(waiting[pick % len(waiting)])
        held = browse.withdraw(self.queue("dlq"), waiting[pick % len(waiting)])
        assert held is not None
        self.world.send(self.queue("plain"), body)
        browse.moved(held)
        items = self.model.lines["dlq"].items
        items.remove(next(item for item in items if item.body == body))
        self.model.send(["plain"], body)

    @precondition(lambda self: any(line.items for line in self.model.lines.values()))
    @rule(duration_ms=st.integers(1, 12))
    def time_passes(self, duration_ms: int) -> None:
        for _ in range(duration_ms):
            self.world.pass_ms(1)
        self.model.pass_ms(duration_ms)

    @invariant()
    def both_agree(self) -> None:
        for name, line in self.model.lines.items() if hasattr(self, "world") else ():
            queue, ready = self.queue(name), line.ready()
            found = seen(browse.ready_after(queue, (), 1_000)[0])
            if line.rules.ordered and not line.rules.grouped:
                assert found == facts(ready), name
            assert sorted(found) == sorted(facts(ready)), name
            assert (queue.depth, queue.depth_bytes) == (len(ready), sum(len(item.body) for item in ready)), name
            self.agree_on_held(queue, line.items)

    def agree_on_held(self, queue: Queue, items: list[Item]) -> None:
        hidden = [item for item in items if item.hidden_until_ms]
        expected = {
            "leased": [item for item in items if item.leased],
            "scheduled": [item for item in hidden if item.scheduled],
            "backing-off": [item for item in hidden if not item.scheduled],
        }
        for state, members in expected.items():
            found = browse.holdings(queue, state)
            assert sorted(seen(found)) == sorted(facts(members)), (queue.name, state)
            until = [item.lease_until_ms if item.leased else item.hidden_until_ms for item in members]
            assert [held.when_ms for held in found] == sorted(until), (queue.name, state)
        assert (queue.leased, queue.scheduled) == (len(expected["leased"]), len(expected["scheduled"]))

    @invariant()
    def memory_holds_what_waits_and_nothing_else(self) -> None:
        if hasattr(self, "world") and self.directory is None:
            held = sum(len(line.items) for line in self.model.lines.values())
            assert sum(message.references for message in self.world.broker.journal.bodies.values()) == held


class OnDisk(InMemory):
    """The same on files: commits, crashes, checkpoints and compaction at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()

    @initialize(names=st.sets(st.sampled_from(sorted(KINDS)), min_size=1, max_size=2))
    def start(self, names: set[str]) -> None:
        super().start(names)
        self.commit()

    @rule()
    def commit(self) -> None:
        self.world.commit()
        self.durable = copy.deepcopy(self.model)

    @rule()
    def checkpoint(self) -> None:
        self.world.disk().checkpoint()
        self.durable = copy.deepcopy(self.model)

    @rule()
    @precondition(
        lambda self: hasattr(self, "world") and self.world.disk().meta.oldest < self.world.disk().journal.segment
    )
    def compact(self) -> None:
        self.world.compact()
        self.durable = copy.deepcopy(self.model)

    @rule(finish=st.booleans())
    def crash(self, finish: bool) -> None:
        if finish:
            self.commit()
        now_ms = self.model.now_ms
        self.world.crash()
        self.model = copy.deepcopy(self.durable)
        self.model.now_ms = now_ms
        self.model.crash()
        self.model.happen()
        self.commit()

    @invariant()
    def segments_are_counted_right(self) -> None:
        if hasattr(self, "world"):
            journal = self.world.broker.journal
            assert isinstance(journal, FileJournal)
            counted = {segment: live for segment, live in journal.counts()[0].items() if live}
            assert counted == self.world.broker.restorer.live_segments()


class OrderedGroups(OnDisk):
    """The same with queues of ordered groups only."""

    @initialize(names=st.sampled_from([{"batched"}, {"grouped", "batched"}]))
    def start(self, names: set[str]) -> None:
        super().start(names)


TestInMemory = InMemory.TestCase
TestInMemory.settings = settings(max_examples=100, stateful_step_count=40)
TestOnDisk = OnDisk.TestCase
TestOnDisk.settings = settings(max_examples=100, stateful_step_count=40)
TestOrderedGroups = OrderedGroups.TestCase
TestOrderedGroups.settings = settings(max_examples=100, stateful_step_count=40)
