"""Bytes to requests: llhttp finds the boundaries, this says what is too much.

llhttp is strict by default: a length that is no number, a request with both a length and chunks, a bare line feed and
whatever else proxies and servers have understood differently is refused there. Compiled because it is called back for
each header.
"""

from enum import Enum, auto

import httptools

from leveret.http.request import Refusal, Request

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


cdef object AT_REST = Phase.IDLE, IN_HEAD = Phase.HEAD, IN_BODY = Phase.BODY


cdef class Reader:
    """The requests of one connection, in order."""

    cdef object limits, peer, received, parser, request
    cdef bytes target
    cdef dict headers
    cdef list parts
    cdef Py_ssize_t head_bytes, fed_bytes
    cdef readonly Py_ssize_t body_bytes     # how much of the body of the current request has come
    cdef readonly object phase
    cdef public bint awaits_continue        # whether the client waits to be told that its body is wanted

    def __init__(self, limits, peer, received) -> None:
        """`received` gets each complete request, and whether the connection stays open after it."""
        self.limits = limits
        self.peer = peer
        self.received = received
        self.parser = httptools.HttpRequestParser(self)
        self.target = b""
        self.headers = {}
        self.parts = []
        self.phase = AT_REST

    def feed(self, bytes data not None) -> None:
        """Take what came from a socket; raises Refusal for what is no request, and is of no use after that."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise Refusal(400, f"this is not HTTP/1.1: {error}") from None
        if self.phase is IN_HEAD:
            # The parser collects an unfinished line, however long; each line that is complete is counted below.
            self.fed_bytes += len(data)
            if self.fed_bytes > self.limits.head_bytes_max + self.limits.target_bytes_max + len(data):
                self.check_head(self.fed_bytes)

    cdef int check_head(self, Py_ssize_t size) except -1:
        """Refuse headers that are too large."""
        if size > self.limits.head_bytes_max:
            raise Refusal(431, f"the headers have over {self.limits.head_bytes_max} bytes: send less")

    def decline_upgrade(self, bytes rest) -> None:
        """Go on in HTTP/1.1, as a server may that is asked for something else.

        The parser has skipped the body of such a request: so let another one read the head again, without the wish.
        """
        assert self.request is not None, "it was read to its end"
        head = [b"%b %b HTTP/1.1\r\n" % (self.request.method.encode(), self.target)]
        head += [b"%b: %b\r\n" % (name, value) for name, value in self.headers.items() if name != NOT_KEPT]
        self.parser = httptools.HttpRequestParser(self)
        self.feed(b"".join(head) + b"\r\n" + rest)

    # From the parser

    def on_message_begin(self) -> None:
        """A request begins."""
        self.target = b""
        self.headers = {}
        self.head_bytes = self.fed_bytes = self.body_bytes = 0
        self.request = None
        self.parts = []
        self.phase = IN_HEAD

    def on_url(self, bytes part) -> None:
        """The path and query, or some of it."""
        self.target += part
        if len(self.target) > self.limits.target_bytes_max:
            raise Refusal(414, f"path and query have over {self.limits.target_bytes_max} bytes: send a body")

    def on_header(self, bytes name, bytes value) -> None:
        """One header."""
        if self.request is not None:
            return  # what comes after a chunked body: nobody has checked it, so nobody gets it
        self.head_bytes += len(name) + len(value)
        name = name.lower()
        if name not in self.headers:
            self.headers[name] = value
        elif name in SINGLE:
            raise Refusal(400, f"the header {name.decode()} is there twice: send it once")
        else:
            self.check_head(self.head_bytes)
            self.headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        """Everything is known but the body."""
        headers, parser = self.headers, self.parser
        self.check_head(self.head_bytes)
        if len(headers) > self.limits.headers_max:
            raise Refusal(431, f"there are over {self.limits.headers_max} headers: send less")
        version = parser.get_http_version()
        if b"host" not in headers and version != "1.0":
            raise Refusal(400, "the header Host is missing: send it")
        method = parser.get_method().decode()
        if method == "CONNECT":
            raise Refusal(405, "this is no proxy: ask for a path")
        target = self.target if self.target.startswith(b"/") else _path_of(self.target)
        self.request = Request(method, target, headers, self.peer, version)
        self.phase = IN_BODY
        length = headers.get(b"content-length")
        if length is not None and int(length) > self.limits.body_bytes_max:
            self.too_large()
        if b"expect" in headers:
            if headers[b"expect"].lower() != b"100-continue":
                raise Refusal(417, "the only expectation that is known here is 100-continue")
            self.awaits_continue = version != "1.0"

    def on_body(self, bytes part) -> None:
        """Some of the body."""
        self.body_bytes += len(part)
        if self.body_bytes > self.limits.body_bytes_max:
            self.too_large()
        self.parts.append(part)

    def too_large(self) -> None:
        raise Refusal(413, f"the body has over {self.limits.body_bytes_max} bytes: send less at a time")

    def on_message_complete(self) -> None:
        """A request is complete."""
        request = self.request
        assert request is not None, "the headers were complete"
        if NOT_KEPT in self.headers and self.parser.should_upgrade():
            return  # it is going to be read again
        self.phase = AT_REST
        self.awaits_continue = False
        if self.parts:
            request.body = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
            self.parts = []
        self.received(request, self.parser.should_keep_alive())


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
