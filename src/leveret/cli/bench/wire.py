"""As much of AMQP 0-9-1 as a load generator needs: bytes of methods to send, frames of what comes.

It is not the codec of the server: what measures a server, ours or another, should not share its mistakes.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

METHOD, HEADER, BODY = 1, 2, 3
END = b"\xce"
FRAME = struct.Struct(">BHI")
PREAMBLE = b"AMQP\x00\x00\x09\x01"

START, START_OK = (10, 10), (10, 11)
TUNE, TUNE_OK = (10, 30), (10, 31)
OPEN, OPEN_OK = (10, 40), (10, 41)
CLOSE, CLOSE_OK = (10, 50), (10, 51)
CHANNEL_OPEN, CHANNEL_OPEN_OK, CHANNEL_CLOSE = (20, 10), (20, 11), (20, 40)
QUEUE_DECLARE, QUEUE_DECLARE_OK = (50, 10), (50, 11)
QUEUE_DELETE, QUEUE_DELETE_OK = (50, 40), (50, 41)
QOS, QOS_OK = (60, 10), (60, 11)
CONSUME, CONSUME_OK = (60, 20), (60, 21)
PUBLISH, DELIVER, ACK, NACK = (60, 40), (60, 60), (60, 80), (60, 120)
SELECT, SELECT_OK = (85, 10), (85, 11)
REFUSALS = (CLOSE, CHANNEL_CLOSE)

PERSISTENT = b"\x10\x00\x02"  # the flags of a content header that has a delivery mode, and that mode
TAG = struct.Struct(">Q")


class BenchFrame(NamedTuple):
    """One frame."""

    kind: int
    payload: bytes

    @property
    def method(self) -> tuple[int, int]:
        """Which method it is; (0, 0) for content."""
        return struct.unpack_from(">HH", self.payload) if self.kind == METHOD else (0, 0)


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """The bytes of a frame."""
    return FRAME.pack(kind, channel, len(payload)) + payload + END


def method(channel: int, which: tuple[int, int], arguments: bytes = b"") -> bytes:
    """The bytes of a method."""
    return frame(METHOD, channel, struct.pack(">HH", *which) + arguments)


def short(text: str) -> bytes:
    """A short string."""
    data = text.encode()
    return bytes([len(data)]) + data


def long(data: bytes) -> bytes:
    """A long string or table."""
    return struct.pack(">I", len(data)) + data


def publish_head(queue: str, size_bytes: int) -> bytes:
    """Everything of a publish that comes before its body: it is the same for each message."""
    start = method(1, PUBLISH, b"\x00\x00" + short("") + short(queue) + b"\x00")
    header = frame(HEADER, 1, struct.pack(">HHQ", PUBLISH[0], 0, size_bytes) + PERSISTENT)
    return start + header + FRAME.pack(BODY, 1, size_bytes)


class Frames:
    """Cuts what was read into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[BenchFrame]:
        """Every frame that is whole now."""
        data = self._rest + data if self._rest else data
        at, length = 0, len(data)
        unpack = FRAME.unpack_from
        while at + 8 <= length:
            kind, _, size = unpack(data, at)
            end = at + 7 + size
            if end >= length:
                break
            yield BenchFrame(kind, data[at + 7 : end])
            at = end + 1
        self._rest = data[at:]
