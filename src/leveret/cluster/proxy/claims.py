"""What a proxy and a shard tell each other beside AMQP: which messages deliveries are, and what became of them.

So a client keeps what it holds when the shard changes its owner. These are methods of a class that AMQP does not have:

    NAMES     queue, records                  shard: the deliveries that follow are these messages
    CLAIM     queue, consumer tag, records    proxy:its client was given these by another owner and holds them
    SETTLE    u8 how, queue, records          proxy:and has settled these, of which that owner may not know
    MARK      u64 number, u8 urgent           proxy:it wants to know when all before this is durable; 1: soon
    DURABLE   u64 number                      shard: all before that mark is
    VERSION   u64 version                     proxy:what follows is for a node that knows this version of the catalog
    IDENTITY  JSON                            proxy:the token of its client was renewed, and allows this from now on

Queue and consumer tag are short strings; the record of a delivery is drawn in protocols/amqp/unacked.pyx. CLAIM is for
the channel that had the deliveries, when it is opened again; they keep their tags.
"""

import json
import struct
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import NamedTuple, NewType, TypeVar

from leveret.core.errors import InvalidArgument
from leveret.security.identity import Identity

CLASS = b"\x6c\x76"
NAMES, CLAIM, SETTLE, MARK, DURABLE, VERSION, IDENTITY = (CLASS + number.to_bytes(2, "big") for number in range(1, 8))
RECORDS_MAX = 64  # in one method: it fits the smallest frame

T = TypeVar("T")

_METHOD_BYTES = 4
_NUMBER = struct.Struct(">Q")
_RECORD = struct.Struct(">QQQQIB")


PackedName = NewType("PackedName", bytes)
"""The message of a delivery: its queue as a short string, then its record. One object for each delivery is enough."""


class Delivered(NamedTuple):
    """A record that was read."""

    tag: int
    seq: int
    enqueued_ms: int
    group: int
    deliveries: int
    priority: int


def identity(given: Identity) -> bytes:
    """IDENTITY."""
    return IDENTITY + json.dumps(given.to_list(), ensure_ascii=False).encode("utf-8", "surrogatepass")


def identity_of(payload: bytes) -> Identity:
    """The reverse."""
    try:
        return Identity.from_list(json.loads(payload[_METHOD_BYTES:]))
    except (ValueError, TypeError) as error:
        raise unknown(str(error)) from None


def mark(number: int, *, urgent: bool) -> bytes:
    """MARK."""
    return numbered(MARK, number) + bytes([urgent])


def is_urgent(payload: bytes) -> bool:
    """Whether a MARK is; that of an older node never is."""
    return payload[_METHOD_BYTES + _NUMBER.size :] == b"\1"


def numbered(method: bytes, number: int) -> bytes:
    """DURABLE or VERSION; what a MARK begins with."""
    return method + _NUMBER.pack(number)


def number_of(payload: bytes) -> int:
    """The reverse."""
    try:
        return int(_NUMBER.unpack_from(payload, _METHOD_BYTES)[0])
    except struct.error as error:
        raise unknown(str(error)) from None


def names(queue: str, records: bytes) -> bytes:
    """NAMES; leveret/cluster/proxy/tags.pyx reads them."""
    return NAMES + short(queue) + records


def claims(held: Iterable[tuple[str, PackedName]]) -> Iterator[bytes]:
    """CLAIM, as often as needed: the deliveries of a channel with the tags of their consumers, in the order of tags."""
    for (consumer, queue), found in groupby(held, lambda each: (each[0], each[1][: -_RECORD.size])):
        for some in _some(found):
            yield CLAIM + queue + short(consumer) + b"".join(name[-_RECORD.size :] for _, name in some)


def claim_of(payload: bytes) -> tuple[str, str, list[Delivered]]:
    """The reverse: queue, consumer tag, deliveries."""
    queue, at = _string(payload, _METHOD_BYTES)
    consumer, at = _string(payload, at)
    return queue, consumer, _records(payload, at)


def settlements(settled: Iterable[tuple[int, PackedName]]) -> Iterator[bytes]:
    """SETTLE, as often as needed: how messages were settled, and which."""
    for (how, queue), found in groupby(settled, lambda each: (each[0], each[1][: -_RECORD.size])):
        for some in _some(found):
            yield SETTLE + bytes([how]) + queue + b"".join(name[-_RECORD.size :] for _, name in some)


def settlement_of(payload: bytes) -> tuple[int, str, list[Delivered]]:
    """The reverse: how, queue, deliveries."""
    queue, at = _string(payload, _METHOD_BYTES + 1)
    return payload[_METHOD_BYTES], queue, _records(payload, at)


def _some(each: Iterator[T]) -> Iterator[list[T]]:
    """A few at a time."""
    while some := list(islice(each, RECORDS_MAX)):
        yield some


def short(text: str) -> bytes:
    """A short string of AMQP."""
    encoded = text.encode("utf-8", "surrogateescape")
    return bytes([len(encoded)]) + encoded


def _string(payload: bytes, at: int) -> tuple[str, int]:
    """A short string, and where it ends."""
    end = at + 1 + payload[at] if at < len(payload) else at + 1
    if end > len(payload):
        raise unknown("a name is longer than its frame")
    return payload[at + 1 : end].decode("utf-8", "surrogateescape"), end


def _records(payload: bytes, at: int) -> list[Delivered]:
    if (len(payload) - at) % _RECORD.size:
        raise unknown("half a record")
    return [Delivered(*each) for each in _RECORD.iter_unpack(payload[at:])]


def unknown(why: str) -> InvalidArgument:
    """The refusal of what is not drawn above."""
    return InvalidArgument(f"a claim that this node does not understand ({why}): is it of another version?")
