"""The bytes between two nodes: many streams on one connection.

    | u32 size of what follows | u8 kind | u32 stream | payload |

HELLO   version, cluster, role, node, to, nonce (JSON)   the handshake: see leveret.cluster.rpc.handshake
PROOF   one or two HMAC-SHA256                      that the sender knows the cluster's secret; nothing else before it
OPEN    shard, caller (JSON)                        a client of the sender's wants something of a shard of the other
        edge, request (JSON)                        the same by HTTP: see leveret.cluster.forwarding.request
DATA    frames of AMQP, and those of claims.py, either way; bodies of requests and answers
PAUSE, RESUME                                       say no more for a while; go on
CLOSE   why (text)                                  the end of a stream, by the side that has nothing more to say
ASK, ANSWER                                         one message there and one back, or {"refused": why}
PING                                                still there

The version is two numbers. Nodes with the same first one talk to each other, so that they can be upgraded one by one:
what is new in a later minor version is ignored, or refused in an answer, by those who do not know it. A node with
another first number is refused, whatever it could prove: version 3 has another handshake, and no proof of version 2 is
accepted.
"""

import json
import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import orjson

from leveret.core.errors import AccessRefused, InvalidArgument

VERSION = (3, 0)
MESSAGE_BYTES_MAX = 64 << 20  # of a payload: a batch of SQS or REST with the largest bodies
STRANGER_BYTES_MAX = 2_048  # before the proof: three names of 255 bytes and a nonce in JSON
NUMBERS = 1 << 32  # of streams
_HEAD = struct.Struct(">IBI")
_SIZE_BYTES = 4
_HEAD_BYTES = _HEAD.size - _SIZE_BYTES


class FrameKind(IntEnum):
    """What a message is."""

    UNKNOWN = 0
    HELLO = 1
    PROOF = 2
    OPEN = 3
    DATA = 4
    PAUSE = 5
    RESUME = 6
    CLOSE = 7
    ASK = 8
    ANSWER = 9
    PING = 10


_KINDS = {int(kind): kind for kind in FrameKind}


class LinkFrame(NamedTuple):
    """One message of a stream."""

    kind: FrameKind
    number: int
    payload: bytes


def encode(kind: FrameKind, number: int, payload: bytes = b"") -> bytes:
    """The bytes of a message."""
    return _HEAD.pack(_HEAD_BYTES + len(payload), kind, number) + payload


class LinkReader:
    """Bytes to messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.bytes_max = STRANGER_BYTES_MAX

    def feed(self, data: bytes) -> Iterator[LinkFrame]:
        """The messages that are here whole; raises InvalidArgument for what is none."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _HEAD.size:
                size, kind, number = _HEAD.unpack_from(self._buffer, start)
                if not 0 <= size - _HEAD_BYTES <= self.bytes_max:
                    raise InvalidArgument(f"a message of {size} bytes from another node: at most {self.bytes_max}")
                end = start + _SIZE_BYTES + size
                if len(self._buffer) < end:
                    return
                payload = bytes(self._buffer[start + _HEAD.size : end])
                start = end
                yield LinkFrame(_KINDS.get(kind, FrameKind.UNKNOWN), number, payload)
        finally:
            del self._buffer[:start]


def packed(told: dict[str, Any]) -> bytes:
    """JSON; names of clients may hold bytes that are no UTF-8, which only the slower way can write."""
    try:
        return orjson.dumps(told)
    except TypeError:
        return json.dumps(told).encode()


def unpacked(payload: bytes) -> Any:
    """The reverse; ValueError if it is none."""
    try:
        return orjson.loads(payload)
    except ValueError:
        return json.loads(payload)


def refusal(why: object) -> bytes:
    """The answer to a question that is not understood, or not answered for another reason."""
    return json.dumps({"refused": str(why)}).encode()


def is_refusal(answer: bytes) -> bool:
    """Whether an answer is that."""
    return answer.startswith(b'{"refused"')


def is_too_long(said: bytes) -> bool:
    """Whether a question or an answer is more than the other node takes."""
    return len(said) > MESSAGE_BYTES_MAX


def too_long(said: bytes) -> bytes:
    """The refusal of such a one."""
    return refusal(f"{len(said)} bytes in one message between nodes: at most {MESSAGE_BYTES_MAX}")


def check_version(told: object, peer: str) -> None:
    """Refuse to talk to a node with which that would be of no use."""
    if not isinstance(told, list) or not told or told[0] != VERSION[0]:
        raise AccessRefused(
            f"node '{peer}' speaks version {told} between nodes, and this one {list(VERSION)}: stop all nodes of the "
            "earlier release, then start them with the later one"
        )
