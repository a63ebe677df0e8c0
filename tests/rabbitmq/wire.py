"""A client that hides nothing: it sends methods as they are and keeps everything that the server says.

It trusts a server of ours and RabbitMQ alike to send well-formed frames; a server that does not fails the test.
"""

import socket
from collections import deque
from typing import NamedTuple

from leveret.core.properties import Properties, decode_header, encode_header
from leveret.wire import methods as m
from leveret.wire.codec import decode, encode
from leveret.wire.frames import BODY, HEADER, METHOD, PROTOCOL_HEADER

FRAME_END = 0xCE
FRAME_MAX = 131_072
ANSWER_S_MAX = 60.0
CAPABILITIES = dict.fromkeys(
    (
        "basic.nack",
        "consumer_cancel_notify",
        "connection.blocked",
        "authentication_failure_close",
        "publisher_confirms",
    ),
    True,
)


class Said(NamedTuple):
    """One thing that the server said: a method, and its content if it has one."""

    channel: int
    method: m.Method
    properties: Properties | None = None
    body: bytes = b""


class Wire:
    """One connection, logged in."""

    def __init__(self, host: str, port: int, vhost: str = "/") -> None:
        self.socket = socket.create_connection((host, port), ANSWER_S_MAX)
        self.buffer = b""
        self.closed = False
        self.opened: set[int] = set()
        self.early: deque[Said] = deque()
        """What was said before something that was expected."""
        self.socket.sendall(PROTOCOL_HEADER)
        self.expect(m.ConnectionStart)
        self.send(0, m.ConnectionStartOk({"capabilities": CAPABILITIES}, "PLAIN", b"\0guest\0guest", "en_US"))
        tune = self.expect(m.ConnectionTune)
        assert isinstance(tune, m.ConnectionTune)
        self.send(0, m.ConnectionTuneOk(tune.channel_max, tune.frame_max, 0))
        self.send(0, m.ConnectionOpen(vhost))
        self.expect(m.ConnectionOpenOk)

    def close(self) -> None:
        """Say goodbye if anybody listens, and let go of the socket."""
        if not self.closed:
            self.send(0, m.ConnectionClose(200, "done", 0, 0))
            while (said := self.read(ANSWER_S_MAX)) is not None and not isinstance(said.method, m.ConnectionCloseOk):
                pass
        self.socket.close()

    def drop(self) -> None:
        """Let go of the socket without a word."""
        self.closed = True
        self.socket.close()

    def expect(self, kind: type[m.Method]) -> m.Method:
        """What must be said next, but for what a busy machine said too late to be listened to."""
        while (said := self.heard(ANSWER_S_MAX)) is not None:
            if isinstance(said.method, kind):
                return said.method
            self.early.append(said)
        raise AssertionError(f"expected {kind.__name__}, the server said {list(self.early)}")

    def send(self, channel: int, method: m.Method, properties: Properties | None = None, body: bytes = b"") -> None:
        """Write a method, and its content if it has one; a channel is opened when it is first used."""
        if channel and channel not in self.opened and not isinstance(method, m.ChannelOpen):
            self.send(channel, m.ChannelOpen())
            self.opened.add(channel)
            self.expect(m.ChannelOpenOk)
        self.socket.sendall(frames(channel, method, properties, body))

    def read(self, timeout_s: float) -> Said | None:
        """The next thing said; None when nothing is for so long, or nothing will ever be."""
        return self.early.popleft() if self.early else self.heard(timeout_s)

    def heard(self, timeout_s: float) -> Said | None:
        """The same, of what comes from now on."""
        found = self.frame(timeout_s)
        if found is None:
            return None
        _, channel, payload = found
        method = decode(payload)
        if isinstance(method, m.ChannelClose):
            self.send(channel, m.ChannelCloseOk())
            self.opened.discard(channel)
        elif isinstance(method, m.ChannelCloseOk):
            self.opened.discard(channel)
        elif isinstance(method, m.ConnectionClose):
            self.send(0, m.ConnectionCloseOk())
            self.drop()
        return self.content(channel, method) if method.spec.has_content else Said(channel, method)

    def content(self, channel: int, method: m.Method) -> Said:
        """What follows a method that has content."""
        header = self.content_frame(HEADER)
        size = int.from_bytes(header[4:12], "big")
        body = b""
        while len(body) < size:
            body += self.content_frame(BODY)
        return Said(channel, method, decode_header(header), body)

    def content_frame(self, kind: int) -> bytes:
        """The payload of the next frame, which must be of this kind."""
        found = self.frame(ANSWER_S_MAX)
        assert found is not None, "the server stopped in the middle of a content"
        assert found[0] == kind, f"a frame of type {found[0]} in the middle of a content"
        return found[2]

    def frame(self, timeout_s: float) -> tuple[int, int, bytes] | None:
        """The next frame: type, channel, payload."""
        while len(self.buffer) < 7 or len(self.buffer) < 8 + int.from_bytes(self.buffer[3:7], "big"):
            if self.closed:
                return None
            self.socket.settimeout(timeout_s)
            try:
                data = self.socket.recv(FRAME_MAX)
            except TimeoutError:
                return None
            self.socket.settimeout(ANSWER_S_MAX)
            if not data:
                self.drop()
                return None
            self.buffer += data
        end = 8 + int.from_bytes(self.buffer[3:7], "big")
        whole, self.buffer = self.buffer[:end], self.buffer[end:]
        assert whole[-1] == FRAME_END, f"a frame without its end: {whole[:16].hex()}"
        return whole[0], int.from_bytes(whole[1:3], "big"), whole[7:-1]


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """One frame."""
    return bytes([kind]) + channel.to_bytes(2, "big") + len(payload).to_bytes(4, "big") + payload + bytes([FRAME_END])


def frames(channel: int, method: m.Method, properties: Properties | None = None, body: bytes = b"") -> bytes:
    """A method, and its content if it has one."""
    data = frame(METHOD, channel, encode(method))
    if method.spec.has_content:
        data += frame(HEADER, channel, encode_header(properties or Properties(), len(body)))
        for start in range(0, len(body), FRAME_MAX - 8):
            data += frame(BODY, channel, body[start : start + FRAME_MAX - 8])
    return data
