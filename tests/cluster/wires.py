"""Links without sockets: nodes that write into a buffer, and what carries it to the other end."""

import json
from collections.abc import Callable
from typing import Any, cast

from leveret.cluster.rpc import wire
from leveret.cluster.rpc.link import LinkStream, PeerLink
from leveret.cluster.rpc.wire import FrameKind, LinkFrame
from leveret.core.errors import InvalidArgument
from tests.cluster.peer import KEYS


class Side:
    """A node, and the transport of its end of a link."""

    def __init__(self, name: str, cluster: str = "test", keys: tuple[bytes, ...] = KEYS) -> None:
        self.name = name
        self.cluster = cluster
        self.keys = keys
        self.sent = bytearray()
        self.hung_up = False
        self.is_up = False
        self.requests: list[object] = []

    # What a link asks of its node

    def up(self, link: PeerLink) -> None:
        self.is_up = True

    def down(self, link: PeerLink) -> None:
        self.is_up = False

    def opened(self, link: PeerLink, number: int, request: dict[str, Any]) -> LinkStream:
        self.requests.append(request)
        raise InvalidArgument("nothing is here")

    def asked(self, link: PeerLink, request: bytes, answer: Callable[[bytes], None]) -> None:
        self.requests.append(request)
        asked = json.loads(request)
        answer(b"yes, " + asked["known"].encode())

    # What it asks of its transport

    def write(self, data: bytes) -> None:
        if not self.hung_up:
            self.sent += data

    def abort(self) -> None:
        self.hung_up = True

    def close(self) -> None:
        self.hung_up = True

    def set_write_buffer_limits(self, high: int) -> None:
        assert high

    def get_extra_info(self, name: str) -> None:
        return None

    # What a test does

    def link(self, calls: str | None = None) -> PeerLink:
        """Its end of a new link."""
        link = PeerLink(self, calls)
        link.connection_made(cast(Any, self))
        return link

    def said(self) -> list[LinkFrame]:
        """What it has sent since the last time."""
        reader = wire.LinkReader()
        reader.bytes_max = wire.MESSAGE_BYTES_MAX
        data = bytes(self.sent)
        self.sent.clear()
        return list(reader.feed(data))


def hello_of(messages: list[LinkFrame]) -> dict[str, Any]:
    """The HELLO among some messages."""
    (found,) = (message.payload for message in messages if message.kind is FrameKind.HELLO)
    return cast(dict[str, Any], json.loads(found))


def hello(**fields: object) -> bytes:
    """The bytes of a HELLO with these fields; others are what a caller 'a' says to 'b'."""
    told = {"version": wire.VERSION, "cluster": "test", "role": "caller", "node": "a", "to": "b", "nonce": "0" * 64}
    return wire.encode(FrameKind.HELLO, 0, json.dumps({**told, **fields}).encode())


def is_proof(messages: list[LinkFrame]) -> bool:
    """Whether one of them depends on the secret."""
    return any(message.kind not in (FrameKind.HELLO, FrameKind.CLOSE) for message in messages)
