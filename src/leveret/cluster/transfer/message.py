"""A dead letter on its way to queues of other shards, a message that is moved to one of them, or a row of a sink.

In the outbox of its shard it is a message with one more header, which names the virtual host; a row has another one, in
JSON, for what its receivers decide by. Outbox messages that are alike but for their bodies, as rows are, share
metadata: it is read, routed and sent once for all of them.

A batch has the outbox messages that a sender brings to a shard in one turn, in their order.

    head (JSON): shard, version, queue
                 envelopes: of each all that leveret.cluster.transfer.message.MessageMetadata has but its properties,
                 and header_bytes letters: of each its name, the number of its metadata, the size of its body
    | line feed | headers | bodies

The answer says how many of them, from the first on, the shard has on its disks: it takes none before the one in front
of it. A sender sends its next batch, which begins where the last one was not taken, when that is answered or given up.
So one that comes late begins with outbox messages that are known by their names, and goes on in their order.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from leveret.cluster.rpc.wire import packed
from leveret.core.broker import Broker
from leveret.core.deadletter import all_keys, forms_cycle
from leveret.core.dedup import digest
from leveret.core.errors import InvalidArgument, JournalFailed, LeveretError, QueueFull, TooMany
from leveret.core.ids import format_id
from leveret.core.message import Message
from leveret.core.properties import Properties, decode_header, encode_header, rejoined
from leveret.core.publish import group_of, route_of
from leveret.core.queue import Queue

ADDRESS = "x-leveret-address"
MOVED = "x-leveret-moved"
SENT = "x-leveret-sent"
PERSISTENT = 1  # of Message.flags
FLAGS_AT = 12  # in a content header: what is before it differs with the size of the body only


@dataclass(frozen=True, kw_only=True, eq=False)
class MessageMetadata:
    """All that an outbox message is, but for its name and its body.

    One that is `moved` did not die: it goes to its queue whatever its history is, and waits until that has room. One
    that is `sent` was not published before: it waits, too, has times, and a key if it is not to be published twice.
    """

    vhost: str
    exchange: str
    routing_key: str
    keys: list[str]
    priority: int
    persistent: bool
    moved: bool
    properties: Properties
    """What it carries."""
    header: bytes
    """The same as a content header; the size in it is that of no body."""
    sent: bool = False
    due_ms: int = 0
    expiry_ms: int = 0
    key: str = ""

    @property
    def guide(self) -> Properties:
        """What it is routed by."""
        return Properties() if self.moved else self.properties

    @cached_property
    def options(self) -> dict[str, Any]:
        """What its receivers publish it with."""
        return {
            "priority": self.priority,
            "persistent": self.persistent,
            "group": group_of(self.properties.headers or {}),
            "due_ms": self.due_ms,
            "expiry_ms": self.expiry_ms,
        }

    @cached_property
    def route(self) -> bytes:
        return route_of(self.exchange, self.routing_key)


class OutboxMessage(NamedTuple):
    """One outbox message; its receivers know it by its name when it is sent again."""

    name: str
    metadata: MessageMetadata
    body: bytes


def addressed(
    properties: Properties, vhost: str, moved: bool = False, sent: Mapping[str, Any] | None = None
) -> Properties:
    """The properties of a message in the outbox, whatever its publisher made up; `sent` is what is told of a row."""
    headers = {name: value for name, value in (properties.headers or {}).items() if name not in (MOVED, SENT)}
    more = {ADDRESS: vhost, **({MOVED: True} if moved else {}), **({} if sent is None else {SENT: json.dumps(sent)})}
    return replace(properties, headers={**headers, **more})


def name_of(shard_id: str, tag: int, message: Message) -> str:
    """The name of a message of the outbox of a shard; `tag` is that of its broker."""
    return f"{shard_id}/{format_id(tag, message.seq)}"


class MetadataCache:
    """The metadata of some messages of an outbox."""

    def __init__(self) -> None:
        self._known: dict[tuple[bytes, bytes, int, int], MessageMetadata] = {}

    def of(self, message: Message) -> MessageMetadata:
        """That of a message; messages that are alike but for their bodies have the same one."""
        alike = message.route, message.header[FLAGS_AT:], message.priority, message.flags & PERSISTENT
        found = self._known.get(alike)
        if found is None:
            found = self._known[alike] = _metadata_of(message)
        return found


def _metadata_of(message: Message) -> MessageMetadata:
    properties = message.properties
    headers = dict(properties.headers or {})
    vhost, moved = str(headers.pop(ADDRESS)), bool(headers.pop(MOVED, False))
    sent = headers.pop(SENT, None)
    if sent is not None:
        headers.pop("BCC", None)  # the keys are told beside it
    carried = replace(properties, headers=headers or None)
    return MessageMetadata(
        vhost=vhost,
        exchange=message.exchange,
        routing_key=message.routing_key,
        keys=[message.routing_key] if moved else _keys(properties, message.routing_key),
        priority=message.priority,
        persistent=bool(message.flags & PERSISTENT),
        moved=moved,
        properties=carried,
        header=encode_header(carried, 0),
        **({} if sent is None else {"sent": True, **json.loads(str(sent))}),
    )


def targets(core: Broker, metadata: MessageMetadata, only: str = "") -> list[Queue]:
    """The queues of a shard that the exchange of an outbox message leads to; `only`: not to others than this."""
    virtual_host = core.topology.vhosts.get(metadata.vhost)
    if virtual_host is None or metadata.exchange not in virtual_host.exchanges:
        return []
    guide = metadata.guide
    found = virtual_host.route(metadata.exchange, metadata.keys, guide.headers)
    return [queue for queue in found if only in ("", queue.name) and not forms_cycle(guide, queue.name)]


def deliver(core: Broker, message: OutboxMessage, queues: list[Queue]) -> None:
    """Give an outbox message to its targets, unless they had it before.

    No publisher can be told that a dead letter is refused: as in one broker it is dropped where it is. QueueFull: it
    did not die, and is to be brought again.
    """
    metadata, size_bytes = message.metadata, len(message.body)
    key = bytes.fromhex(metadata.key) or digest(message.name)
    found = [queue for queue in queues if _fits(queue, size_bytes) and queue.duplicate_of(key) is None]
    if (metadata.sent or metadata.moved) and any(_is_full(queue, size_bytes) for queue in found):
        raise _full(metadata)
    if not found:
        return
    wire, header_len = rejoined(metadata.header, message.body), len(metadata.header)
    plain = [queue for queue in found if queue.recorder is None]
    for each in (plain, *([queue] for queue in found if queue.recorder is not None)):
        with suppress(InvalidArgument, TooMany):  # a stream may refuse what its headers ask for
            core.publish(each, metadata.route, wire, header_len, key=key, **metadata.options)


def _full(metadata: MessageMetadata) -> QueueFull:
    """That an outbox message waits."""
    return QueueFull(f"a queue for '{metadata.routing_key}' is at its limit: what did not die waits for room")


def _is_full(queue: Queue, size_bytes: int) -> bool:
    """Whether a queue would refuse a message now."""
    return queue.policy.overflow != "drop-head" and queue.would_overflow(size_bytes)


def _fits(queue: Queue, size_bytes: int) -> bool:
    most = queue.policy.max_message_bytes
    return most is None or size_bytes <= most


def _keys(properties: Properties, routing_key: str) -> list[str]:
    """What a dead letter is routed by; a bad CC header does not stop it."""
    try:
        return all_keys(properties, routing_key)
    except InvalidArgument:
        return [routing_key]


MESSAGES_MAX = 4_096  # in a batch: a shard does nothing else while it takes one
METADATA_FIELDS = [each.name for each in fields(MessageMetadata) if each.name not in ("properties", "header")]


class OutboxBatch(NamedTuple):
    """Some outbox messages of one sender."""

    messages: list[OutboxMessage]
    queue: str = ""
    """The only queue that they are for, if they wait."""


def take(core: Broker, batch: OutboxBatch) -> int:
    """Give outbox messages to the queues of a shard, up to one that has to wait; give how many. Under the lock of
    the shard.
    """
    taken = 0
    for metadata, messages in groupby(batch.messages, attrgetter("metadata")):
        queues = targets(core, metadata, batch.queue)
        for message in messages:
            try:
                deliver(core, message, queues)
            except JournalFailed:
                raise
            except LeveretError:
                return taken
            taken += 1
    return taken


def encode(batch: OutboxBatch, shard_id: str, version: int) -> bytes:
    """A batch for a shard of another node, which should know this version of the catalog."""
    numbers: dict[MessageMetadata, int] = {}
    messages = [(name, numbers.setdefault(of, len(numbers)), len(body)) for name, of, body in batch.messages]
    all_metadata = [
        {name: getattr(each, name) for name in METADATA_FIELDS} | {"header_bytes": len(each.header)} for each in numbers
    ]
    head = {"shard": shard_id, "version": version, "queue": batch.queue, "envelopes": all_metadata, "letters": messages}
    bodies = (message.body for message in batch.messages)
    return b"".join((packed(head), b"\n", *(each.header for each in numbers), *bodies))


def decode(head: dict[str, Any], wire: bytes) -> OutboxBatch:
    """The reverse, of a head that was read already."""
    try:
        rows = head["letters"]
        if len(rows) > MESSAGES_MAX:
            raise ValueError(f"{len(rows)} of them, at most {MESSAGES_MAX}: are the nodes of different versions?")
        sizes = [told["header_bytes"] for told in head["envelopes"]] + [size for _, _, size in rows]
        pieces = _slices(wire, sizes)
        all_metadata = [_metadata_told(told, next(pieces)) for told in head["envelopes"]]
        messages = [OutboxMessage(name, all_metadata[number], next(pieces)) for name, number, _ in rows]
        return OutboxBatch(messages, head["queue"])
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidArgument(f"no outbox messages: {error}") from None


def _slices(wire: bytes, sizes: list[int]) -> Iterator[bytes]:
    """Bytes that were joined."""
    if min(sizes, default=0) < 0 or sum(sizes) != len(wire):
        raise ValueError(f"{len(wire)} bytes, {sum(sizes)} announced")
    start = 0
    for size in sizes:
        yield wire[start : start + size]
        start += size


def _metadata_told(told: dict[str, Any], header: bytes) -> MessageMetadata:
    known = {name: told[name] for name in METADATA_FIELDS if name in told}
    bytes.fromhex(known.get("key", ""))
    return MessageMetadata(properties=decode_header(header), header=header, **known)


def answered(answer: bytes | None) -> int:
    """How many outbox messages were taken; those who refuse, or are lost meanwhile, have none."""
    return int(answer) if answer is not None and answer.isdigit() else 0
