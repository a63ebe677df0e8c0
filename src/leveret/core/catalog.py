"""Definitions as the journal keeps them: small JSON objects by kind and key, each in some segment.

Queues are not in here: their own objects know everything. During a replay definitions may come in any order (old ones
are copied forward when their segment goes), so they are collected first and built in the order of Kind.
"""

import json
from collections import Counter
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

REMOVED = 0x80  # added to the kind when something is removed


class Kind(IntEnum):
    """What a definition is about, in the order in which they are built."""

    VHOST = 1
    EXCHANGE = 2
    QUEUE = 3
    BINDING = 4
    POLICY = 5
    CONSUMER = 6
    NUMBERS = 7
    """How far messages and queues are numbered: kept even when nothing numbered is left."""
    USER = 8
    PERMISSION = 9
    TOPIC_PERMISSION = 10
    VHOST_LIMITS = 11
    API_KEY = 12
    GLOBAL_PARAMETER = 13
    ACCESS_KEY = 14
    QUEUE_DETAILS = 15
    """What an edge knows about a queue beside its arguments; goes with the queue."""
    MOVE_TASK = 16
    CONSUMER_GROUP = 17
    GROUP_OFFSET = 18
    DELETED_QUEUE = 19
    """The name of a queue that an edge has deleted, and when: some edges do not allow it again at once."""
    LOGOUT = 20
    """A session of a browser that has ended before its time, for the nodes of a cluster."""
    SINK_BATCH = 24
    """A batch that was decided on: how to publish it while that goes on, then that it was published."""
    SINK_PROGRESS = 25
    """How much of such a batch is published; in the commit batch of what was published last."""
    RESERVATION = 30
    ALERT_RULE = 31
    ALERT_RECEIVER = 32
    ALERT_SILENCE = 33
    EXCLUSIVE_CONSUMER = 34
    """The consumer that alone is given the messages of a queue, for the next owner of a shard."""
    HANDOVER = 35
    """That messages are in the journal which are not persistent, for the next owner of a shard."""
    FOLLOWED = 36
    """The version of the definitions of its cluster that a shard has followed."""


OF_VHOST = (
    Kind.PERMISSION,
    Kind.TOPIC_PERMISSION,
    Kind.VHOST_LIMITS,
    Kind.CONSUMER_GROUP,
    Kind.GROUP_OFFSET,
    Kind.SINK_BATCH,
    Kind.SINK_PROGRESS,
    Kind.EXCLUSIVE_CONSUMER,
    Kind.DELETED_QUEUE,
)
"""What goes with its virtual host, and that nothing in the topology knows."""

_IDENTIFYING = ("vhost", "name", "operator", "user", "exchange", "stream", "partition", "batch", "queue")


def dumps(definition: dict[str, Any]) -> bytes:
    """A definition as bytes; equal ones give equal bytes."""
    return json.dumps(definition, separators=(",", ":"), sort_keys=True).encode()


class Catalog:
    """Every definition but those of queues."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, bytes], tuple[int, bytes]] = {}
        self.versions: Counter[int] = Counter()
        """By kind: another number after each definition, for those who remember what definitions say."""

    def put(self, kind: int, key: bytes, segment: int, payload: bytes) -> None:
        """Add or replace a definition."""
        self._rows[kind, key] = (segment, payload)
        self.versions[kind] += 1

    def drop(self, kind: int, key: bytes) -> bool:
        """Forget a definition; False when there is none, as of what does not last."""
        return self._rows.pop((kind, key), None) is not None

    def get(self, kind: Kind, **key: Any) -> dict[str, Any] | None:
        row = self._rows.get((kind, key_of(kind, key)))
        return None if row is None else json.loads(row[1])

    def of(self, kind: Kind) -> Iterator[dict[str, Any]]:
        return (json.loads(payload) for (each, _), (_, payload) in self._rows.items() if each == kind)

    def in_segment(self, segment: int) -> list[tuple[int, bytes, bytes]]:
        """Kind, key and payload of what lies in a segment."""
        return [(kind, key, row[1]) for (kind, key), row in self._rows.items() if row[0] == segment]

    def to_rows(self) -> list[list[Any]]:
        """Everything, fit for JSON."""
        return [[kind, key.decode(), *(row[0], row[1].decode())] for (kind, key), row in self._rows.items()]

    def from_rows(self, rows: list[list[Any]]) -> None:
        for kind, key, segment, payload in rows:
            self.put(kind, key.encode(), segment, payload.encode())


def key_of(kind: int, definition: dict[str, Any]) -> bytes:
    """What a definition is known by; a binding is all that it says."""
    if kind == Kind.BINDING:
        return dumps(definition)
    return dumps({name: definition[name] for name in _IDENTIFYING if name in definition})
