"""Outbox messages that are brought to a shard together: those that a sender sends in one turn, in their order.

    head (JSON): shard, version, queue
                 envelopes: of each all that leveret.cluster.transfer.message.MessageMetadata has but its properties,
                 and header_bytes letters: of each its name, the number of its metadata, the size of its body
    | line feed | headers | bodies

The answer says how many of them, from the first on, the shard has on its disks: it takes none before the one in front
of it. A sender sends its next batch, which begins where the last one was not taken, when that is answered or given up.
So one that comes late begins with outbox messages that are known by their names, and goes on in their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from leveret.cluster.rpc.wire import packed
from leveret.cluster.transfer.message import MessageMetadata, OutboxMessage, deliver, targets
from leveret.core.broker import Broker
from leveret.core.errors import InvalidArgument, JournalFailed, LeveretError
from leveret.core.properties import decode_header

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
        all_metadata = [_metadata_of(told, next(pieces)) for told in head["envelopes"]]
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


def _metadata_of(told: dict[str, Any], header: bytes) -> MessageMetadata:
    known = {name: told[name] for name in METADATA_FIELDS if name in told}
    bytes.fromhex(known.get("key", ""))
    return MessageMetadata(properties=decode_header(header), header=header, **known)


def answered(answer: bytes | None) -> int:
    """How many outbox messages were taken; those who refuse, or are lost meanwhile, have none."""
    return int(answer) if answer is not None and answer.isdigit() else 0
