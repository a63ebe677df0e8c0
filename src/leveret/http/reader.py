"""Bytes to requests: llhttp finds the boundaries, this says what is too much.

llhttp is strict by default: a length that is no number, a request with both a length and chunks, a bare line feed and
whatever else proxies and servers have understood differently is refused there.
"""

from collections.abc import Callable
from enum import Enum, auto

import httptools

from leveret.http.limits import Limits
from leveret.http.request import Peer, Refusal, Request

Received = Callable[[Request, bool], None]

# Of two values one would be checked and the other one used.
SINGLE = frozenset(
    (b"authorization", b"content-encoding", b"content-length", b"content-type", b"expect", b"host", b"x-amz-date")
)
NOT_KEPT = b"upgrade"
ABSOLUTE = (b"http://", b"https://")


class Phase(Enum):
    """What the next byte belongs to."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


class Reader:
    """The requests of one connection, in order."""

    def __init__(self, limits: Limits, peer: Peer, received: Received) -> None:
        """`received` gets each complete request, and whether the connection stays open after it."""
        self._limits = limits
        self._peer = peer
        self._received = received
        self._parser = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._fed_bytes = 0
        self._request: Request | None = None
        self._parts: list[bytes] = []
        self.body_bytes = 0
        """How much of the body of the current request has come."""
        self.phase = Phase.IDLE
        self.awaits_continue = False
        """Whether the client waits to be told that its body is wanted."""

    def feed(self, data: bytes) -> None:
        """Take what came from a socket; raises Refusal for what is no request, and is of no use after that."""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise Refusal(400, f"this is not HTTP/1.1: {error}") from None
        if self.phase is Phase.HEAD:
            # The parser collects an unfinished line, however long; each line that is complete is counted below.
            self._fed_bytes += len(data)
            if self._fed_bytes > self._limits.head_bytes_max + self._limits.target_bytes_max + len(data):
                self._check_head(self._fed_bytes)

    def _check_head(self, size: int) -> None:
        """Refuse headers that are too large."""
        if size > self._limits.head_bytes_max:
            raise Refusal(431, f"the headers have over {self._limits.head_bytes_max} bytes: send less")

    def _decline_upgrade(self, rest: bytes) -> None:
        """Go on in HTTP/1.1, as a server may that is asked for something else.

        The parser has skipped the body of such a request: so let another one read the head again, without the wish.
        """
        assert self._request is not None, "it was read to its end"
        head = [b"%b %b HTTP/1.1\r\n" % (self._request.method.encode(), self._target)]
        head += [b"%b: %b\r\n" % (name, value) for name, value in self._headers.items() if name != NOT_KEPT]
        self._parser = httptools.HttpRequestParser(self)
        self.feed(b"".join(head) + b"\r\n" + rest)

    # From the parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self._target = b""
        self._headers = {}
        self._head_bytes = self._fed_bytes = self.body_bytes = 0
        self._request = None
        self._parts = []
        self.phase = Phase.HEAD

    def on_url(self, part: bytes) -> None:
        """The path and query, or some of it."""
        self._target += part
        if len(self._target) > self._limits.target_bytes_max:
            raise Refusal(414, f"path and query have over {self._limits.target_bytes_max} bytes: send a body")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        if self._request is not None:
            return  # what comes after a chunked body: nobody has checked it, so nobody gets it
        self._head_bytes += len(name) + len(value)
        name = name.lower()
        if name not in self._headers:
            self._headers[name] = value
        elif name in SINGLE:
            raise Refusal(400, f"the header {name.decode()} is there twice: send it once")
        else:
            self._check_head(self._head_bytes)
            self._headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        """Everything is known but the body."""
        headers, parser = self._headers, self._parser
        self._check_head(self._head_bytes)
        if len(headers) > self._limits.headers_max:
            raise Refusal(431, f"there are over {self._limits.headers_max} headers: send less")
        version: str = parser.get_http_version()
        if b"host" not in headers and version != "1.0":
            raise Refusal(400, "the header Host is missing: send it")
        method = parser.get_method().decode()
        if method == "CONNECT":
            raise Refusal(405, "this is no proxy: ask for a path")
        target = self._target if self._target.startswith(b"/") else _path_of(self._target)
        self._request = Request(method, target, headers, self._peer, version)
        self.phase = Phase.BODY
        length = headers.get(b"content-length")
        if length is not None and int(length) > self._limits.body_bytes_max:
            self._too_large()
        if b"expect" in headers:
            if headers[b"expect"].lower() != b"100-continue":
                raise Refusal(417, "the only expectation that is known here is 100-continue")
            self.awaits_continue = version != "1.0"

    def on_body(self, part: bytes) -> None:
        """Some of the body."""
        self.body_bytes += len(part)
        if self.body_bytes > self._limits.body_bytes_max:
            self._too_large()
        self._parts.append(part)

    def _too_large(self) -> None:
        raise Refusal(413, f"the body has over {self._limits.body_bytes_max} bytes: send less at a time")

    def on_message_complete(self) -> None:
        """A request is complete."""
        request = self._request
        assert request is not None, "the headers were complete"
        if NOT_KEPT in self._headers and self._parser.should_upgrade():
            return  # it is going to be read again
        self.phase = Phase.IDLE
        self.awaits_continue = False
        if self._parts:
            request.body = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts = []
        self._received(request, self._parser.should_keep_alive())


def _path_of(target: bytes) -> bytes:
    """The path of a target that is written as for a proxy."""
    if target == b"*":
        return target
    scheme = next((scheme for scheme in ABSOLUTE if target[: len(scheme)].lower() == scheme), None)
    if scheme is None:
        raise Refusal(400, "the target of a request begins with a slash")
    rest = target[len(scheme) :]
    start = min((index for index in (rest.find(b"/"), rest.find(b"?")) if index >= 0), default=len(rest))
    path = rest[start:]
    return path if path.startswith(b"/") else b"/" + path
