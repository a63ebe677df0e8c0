"""A client that says what it likes: frames by hand, over a socket or straight into a connection in memory."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Protocol, Self, TypeVar

from leveret.core.properties import Properties, content, decode_header
from leveret.wire import methods as m
from leveret.wire.codec import decode, encode
from leveret.wire.frames import BODY, FRAME_MAX_MAX, HEADER, HEARTBEAT, METHOD, PROTOCOL_HEADER, FrameReader
from leveret.wire.methods import Method
from tests.waiting import PATIENCE_S

BODY_FRAME_BYTES = 100_000
CAPABILITIES = {
    "authentication_failure_close": True,
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}

Wanted = TypeVar("Wanted", bound=Method)


class Ended(Exception):
    """The other side closed without another word."""


class Frame(NamedTuple):
    """One frame that came."""

    kind: int
    channel: int
    payload: bytes


class Content(NamedTuple):
    """What follows a method with content: properties and body."""

    properties: Properties
    body: bytes


class Link(Protocol):
    """Where the bytes go."""

    def send(self, data: bytes) -> None:
        """Give bytes to the server."""

    def receive(self) -> bytes:
        """What the server says next; nothing once it has closed."""

    def close(self) -> None:
        """Go away without a word."""


class SocketLink:
    """A blocking socket."""

    def __init__(self, host: str, port: int, patience_s: float = PATIENCE_S) -> None:
        self.socket = socket.create_connection((host, port), patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, data: bytes) -> None:
        # What the server said before it closed is still to be read.
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def receive(self) -> bytes:
        try:
            return self.socket.recv(1 << 20)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self.socket.close()


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """The bytes of any frame."""
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + b"\xce"


def method_frame(channel: int, method: Method) -> bytes:
    """The bytes of a method frame."""
    return frame(METHOD, channel, encode(method))


def content_frames(channel: int, properties: Properties | None, body: bytes) -> Iterator[bytes]:
    """The frames of a content."""
    whole, header_len = content(properties, body)
    yield frame(HEADER, channel, whole[:header_len])
    for start in range(0, len(body), BODY_FRAME_BYTES):
        yield frame(BODY, channel, body[start : start + BODY_FRAME_BYTES])


class Client:
    """Speaks AMQP over a link, well or badly."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.reader = FrameReader(FRAME_MAX_MAX, 0xFFFF)
        self.reader.tune(FRAME_MAX_MAX, 0xFFFF)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.link.close()

    # Saying something

    def raw(self, *parts: bytes) -> None:
        """Send any bytes."""
        self.link.send(b"".join(parts))

    def send(self, channel: int, *methods: Method) -> None:
        """Send methods in one piece."""
        self.raw(*(method_frame(channel, method) for method in methods))

    def publish(
        self, channel: int, method: m.BasicPublish, properties: Properties | None = None, body: bytes = b""
    ) -> None:
        """Send a method with its content."""
        self.raw(method_frame(channel, method), *content_frames(channel, properties, body))

    def call(self, channel: int, method: Method) -> Method:
        """Send a method and give its answer, which must be one of those that the table names."""
        self.send(channel, method)
        answer = self.method(channel)
        assert answer.spec.name in method.spec.replies, f"{method} was answered by {answer}"
        return answer

    def leave(self) -> None:
        """Close in good order, so that everything that goes with the connection is gone."""
        self.send(0, m.ConnectionClose(200, "bye"))
        while True:
            kind, _, payload = self.frame()
            if kind == METHOD and isinstance(decode(payload), m.ConnectionCloseOk):
                return

    # Hearing something

    def frame(self) -> Frame:
        """The next frame that is no heartbeat; raises Ended when there will be none."""
        while True:
            while (found := self.reader.next_frame()) is not None:
                if found[0] != HEARTBEAT:
                    return Frame(*found)
            data = self.link.receive()
            if not data:
                raise Ended
            self.reader.feed(data)

    def any_method(self) -> tuple[int, Method]:
        """The next method with its channel."""
        kind, channel, payload = self.frame()
        assert kind == METHOD, f"a frame of kind {kind} where a method was expected"
        return channel, decode(payload)

    def method(self, channel: int) -> Method:
        """The next method, which must be on this channel."""
        found, method = self.any_method()
        assert found == channel, f"{method} on channel {found}"
        return method

    def expect(self, channel: int, kind: type[Wanted]) -> Wanted:
        """The next method, which must be of this kind."""
        method = self.method(channel)
        assert isinstance(method, kind), f"{method} where {kind.__name__} was expected"
        return method

    def content(self, channel: int) -> Content:
        """The content that follows a method."""
        kind, found, header = self.frame()
        assert (kind, found) == (HEADER, channel)
        body = b""
        while len(body) < int.from_bytes(header[4:12], "big"):
            kind, found, payload = self.frame()
            assert (kind, found) == (BODY, channel)
            body += payload
        return Content(decode_header(header), body)

    def ended(self) -> bool:
        """Whether the server has nothing more to say and has closed."""
        try:
            left = self.frame()
        except Ended:
            return True
        raise AssertionError(f"the server says more: {left}")

    def bytes_until_end(self) -> bytes:
        """Everything that comes until the server closes, whatever it is."""
        return b"".join(iter(self.link.receive, b""))

    # Beginning

    def greet(self, header: bytes = PROTOCOL_HEADER) -> m.ConnectionStart:
        """Send the protocol header."""
        self.raw(header)
        return self.expect(0, m.ConnectionStart)

    def log_in(self, user: str = "guest", password: str = "guest") -> m.ConnectionTune:
        """Greet and log in."""
        self.greet()
        response = f"\0{user}\0{password}".encode()
        self.send(0, m.ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", response, "en_US"))
        return self.expect(0, m.ConnectionTune)

    def open(
        self,
        vhost: str = "/",
        *,
        login: tuple[str, str] = ("guest", "guest"),
        channels: tuple[int, ...] = (1,),
        channel_max: int = 2047,
        frame_max: int = 131_072,
    ) -> Self:
        """Everything up to open channels, without heartbeats."""
        self.log_in(*login)
        self.send(0, m.ConnectionTuneOk(channel_max, frame_max, 0), m.ConnectionOpen(vhost))
        self.expect(0, m.ConnectionOpenOk)
        for channel in channels:
            self.call(channel, m.ChannelOpen())
        return self
