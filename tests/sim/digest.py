"""All that must survive of a real broker, as values that can be compared and read.

Time has its part in it: what was scheduled, or backed off, until a moment that has come simply waits. A broker that
comes back has not looked at the clock yet, so its state is compared as of the time of the other one.

A lease does not survive: what was leased waits again at its place, with its count. Neither do messages and queues that
are not durable.
"""

import dataclasses
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from leveret.core import browse
from leveret.core.broker import Broker
from leveret.core.definition_log import Kind, dumps, key_of
from leveret.core.held import Held
from leveret.core.queue import Queue
from leveret.core.topology import Vhost

PERSISTENT = 1
EVERYTHING = 0xFFFFFFFF
WAITING = ("scheduled", "backing-off")
HELD = (*WAITING, "leased")

Definition = tuple[str, ...]
"""What is defined: its kind, its virtual host, its name."""


class Item(NamedTuple):
    """A message in a queue: what it is, where it stands, and what happens to it."""

    content: bytes
    expiry_ms: int
    group: int
    priority: int
    ready_ms: int
    deliveries: int
    due_ms: int

    def __repr__(self) -> str:
        """All but the content, of which its length and checksum are enough to tell it from others."""
        facts = " ".join(f"{name}={value}" for name, value in self._asdict().items() if name != "content" and value)
        return f"<{len(self.content)} bytes {zlib.crc32(self.content):08x} {facts}>"


class Key(NamedTuple):
    """A de-duplication key of a queue: the message that brought it, and until when it counts."""

    seq: int
    until_ms: int


@dataclasses.dataclass(frozen=True)
class Digest:
    """A whole broker at one moment."""

    messages: Mapping[tuple[str, int], Item] = dataclasses.field(default_factory=dict)
    definitions: Mapping[Definition, str] = dataclasses.field(default_factory=dict)
    keys: Mapping[tuple[str, bytes], Key] = dataclasses.field(default_factory=dict)
    last_seq: int = 0
    last_queue_id: int = 0
    now_ms: int = 0
    disorder: tuple[str, ...] = ()
    """Queues whose messages do not stand in the order that their places ask for, or are miscounted."""

    def at(self, now_ms: int) -> "Digest":
        """The same state seen at another time: what is due waits, keys whose window is over are forgotten."""
        return dataclasses.replace(
            self,
            messages={
                place: item._replace(due_ms=0) if item.due_ms <= now_ms else item
                for place, item in self.messages.items()
            },
            keys={name: key for name, key in self.keys.items() if key.until_ms > now_ms},
            now_ms=now_ms,
        )


def digest_of(broker: Broker) -> Digest:
    """The state of a broker; what is due by now may still be scheduled in it."""
    durable = [queue for queue in broker.queues.values() if queue.durable]
    return Digest(
        messages={(named(queue), seq): item for queue in durable for seq, item in items_of(queue)},
        definitions=dict(definitions_of(broker)),
        keys={
            (named(queue), key): Key(seq, at_ms + queue.policy.dedup_window_ms)
            for queue in durable
            if queue.dedup
            for key, seq, at_ms, _ in queue.dedup.rows()
        },
        last_seq=broker.engine.last_seq,
        last_queue_id=broker.log.last_queue_id,
        disorder=tuple(named(queue) for queue in durable if not is_orderly(queue)),
        now_ms=broker.now_ms,
    )


def named(queue: Queue) -> str:
    """A queue as findings name it; one of the same name that was declared later is another."""
    return f"{queue.vhost}:{queue.name}#{queue.id}"


def items_of(queue: Queue) -> Iterator[tuple[int, Item]]:
    """The messages of a queue that must survive, with their numbers."""
    held = [each for state in HELD for each in browse.holdings(queue, state)]
    for each in [*browse.ready_after(queue, (), EVERYTHING)[0], *held]:
        message = browse.read(each)
        if message.flags & PERSISTENT:
            due_ms = each.when_ms if browse.state_of(each) in WAITING else 0
            yield (
                each.seq,
                Item(
                    message.route + message.content,
                    each.expiry_ms,
                    each.group,
                    each.priority,
                    each.ready_ms,
                    each.deliveries,
                    due_ms,
                ),
            )


def is_orderly(queue: Queue) -> bool:
    """Whether a queue hands its messages out by priority and place, has each of them once, and counts them right."""
    ready = browse.ready_after(queue, (), EVERYTHING)[0]
    plain = [each for each in ready if not each.group]
    lines = [
        plain,
        *([each for each in ready if each.group == group] for group in {each.group for each in ready} - {0}),
    ]
    held = [each for state in HELD for each in browse.holdings(queue, state)]
    numbers = [each.seq for each in [*ready, *held]]
    return (
        all(line == sorted(line, key=turn) for line in lines)
        and len(numbers) == len(set(numbers))
        and queue.depth == len(ready)
        and queue.scheduled == len(browse.holdings(queue, "scheduled"))
    )


def turn(held: Held) -> tuple[int, int, int]:
    """What orders the messages of a line; within a group priorities do not count."""
    return 0 if held.group else -held.priority, held.ready_ms, held.seq


def definitions_of(broker: Broker) -> Iterator[tuple[Definition, str]]:
    """Everything that is defined and durable."""
    for home in broker.topology.vhosts.values():
        yield ("vhost", home.name), ""
        yield from definitions_in(home)
    for kind in (Kind.USER, Kind.PERMISSION):
        for definition in broker.catalog.of(kind):
            yield (kind.name, key_of(kind, definition).decode()), dumps(definition).decode()
    for name, number in broker.engine.consumer_ids.items():
        yield ("consumer", name), str(number)


def definitions_in(home: Vhost) -> Iterator[tuple[Definition, str]]:
    """The definitions of a virtual host; a queue is also what its policies make of it."""
    for queue in home.queues.values():
        if queue.durable:
            facts = [dict(queue.arguments or {}), queue.auto_delete, queue.paused, queue.id, repr(queue.policy)]
            yield ("queue", home.name, queue.name), json.dumps(facts, sort_keys=True, default=repr)
    for exchange in home.exchanges.values():
        if exchange.durable and exchange.name and not exchange.name.startswith("amq."):
            yield (
                ("exchange", home.name, exchange.name),
                dumps({**exchange.to_dict(), "alternate": exchange.alternate}).decode(),
            )
    for binding in home.bindings():
        if home.exchange(binding.source).durable and binding.destination.durable:
            yield ("binding", home.name, dumps(binding.to_dict()).decode()), ""
    for policy in [*home.policies.values(), *home.operator_policies.values()]:
        yield ("policy", home.name, policy.name, str(policy.operator)), dumps(policy.to_dict()).decode()
