"""Bytes to requests: llhttp reads heads, this finds their ends, reads bodies and says what is too much.

    request = head CRLF CRLF [ body ]       body: as many bytes as Content-Length says, or chunks (chunked.pyx)

llhttp is strict by default: a length that is no number, a request with both a length and chunks, a bare line feed and
whatever else proxies and servers have understood differently is refused there. It gets heads only: it would collect an
unfinished line of chunks and trailers whatever its length. Both sides have to agree on where a head ends; a request
about which they do not is refused. Compiled because it is called back for each header.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memchr

from enum import Enum, auto

import httptools

from leveret.protocols.http.chunked cimport ChunkedBody
from leveret.protocols.http.request import Refusal, Request

# Of two values one would be checked and the other one used.
SINGLE = frozenset(
    (
        b"authorization", b"content-encoding", b"content-length", b"content-type", b"expect", b"host",
        b"transfer-encoding", b"x-amz-date",
    )
)
ABSOLUTE = (b"http://", b"https://")
VERSIONS = ("1.1", "1.0")

cdef enum:
    CR = 13
    LF = 10
    SPACE = 32
    HEAD_END = 4                # characters of CRLF CRLF
    BLANK_BYTES_MAX = 4         # empty lines before a request: some old clients send one after a body
    LENGTH_DIGITS_MAX = 19      # of a number with 63 bits
    LARGE_BYTES_MIN = 8_193     # of a body that is worth asking the handler first whether it is wanted
    LINE_BYTES = 4              # a colon, a space and the line end
    REQUEST_LINE_BYTES = 64     # method, version, spaces and the line end


class ReaderPhase(Enum):
    """What the next byte belongs to."""

    IDLE = auto()
    HEAD = auto()
    BODY = auto()


cdef object AT_REST = ReaderPhase.IDLE, IN_HEAD = ReaderPhase.HEAD, IN_BODY = ReaderPhase.BODY


cdef class RequestReader:
    """The requests of one connection, in order."""

    cdef object limits, peer, received, parser
    cdef bytes target
    cdef dict headers
    cdef ChunkedBody chunked                # None: the body has `length` bytes
    cdef bytearray collected
    cdef Py_ssize_t head_bytes_max, headers_max, fed_bytes_max
    cdef Py_ssize_t blank_bytes, fed_bytes, head_bytes, header_lines, length
    cdef int spaces                         # in the first line
    cdef bint in_first_line
    cdef int matched                        # characters of CRLF CRLF that were read last
    cdef bint keep_alive
    cdef bint used, upgraded                # the parser waits for a body that it does not get; it expects no HTTP
    cdef readonly object phase  # type: ReaderPhase
    cdef readonly object request  # type: Request | None  # the one whose head is complete and whose body is not
    cdef readonly bint is_large             # whether its body is large, or may be
    cdef public bint awaits_continue        # whether the client waits to be told that its body is wanted

    def __init__(self, limits: "HttpLimits", peer: "HttpPeer", received: Callable[[Request, bool], None]) -> None:
        """`received` gets each complete request, and whether the connection stays open after it."""
        self.limits = limits
        self.peer = peer
        self.received = received
        self.parser = httptools.HttpRequestParser(self)
        self.head_bytes_max = limits.head_bytes_max
        self.headers_max = limits.headers_max
        lines_bytes = self.head_bytes_max + LINE_BYTES * self.headers_max
        self.fed_bytes_max = lines_bytes + limits.target_bytes_max + REQUEST_LINE_BYTES
        self.keep_alive = True
        self.phase = AT_REST

    @property
    def body_bytes(self) -> int:
        """How much of the body of the current request has come."""
        if self.phase is not IN_BODY:
            return 0
        if self.chunked is not None:
            return len(self.chunked.body)
        return 0 if self.collected is None else len(self.collected)

    def limit_body(self, Py_ssize_t bytes_max) -> None:
        """Let the body of the current request have so many bytes at most."""
        if self.length > bytes_max or self.body_bytes > bytes_max:
            raise self.too_large(bytes_max)
        if self.chunked is not None:
            self.chunked.limit(bytes_max)

    def discard(self) -> None:
        """Forget the body of a request that was refused; nothing more is read."""
        self.chunked = None
        self.collected = None

    def close(self) -> None:
        """The connection is gone: drop the parser, which refers to this reader."""
        self.discard()
        self.parser = self.received = None

    def too_large(self, bytes_max) -> Refusal:
        return Refusal(413, f"the body has over {bytes_max} bytes: send less at a time")

    def feed(self, bytes data not None) -> None:
        """Take what came from a socket; raises Refusal for what is no request, and is of no use after that."""
        cdef Py_ssize_t place = 0, size = len(data)
        while place < size:
            if self.phase is AT_REST:
                place = self.begin(data, place)
            elif self.phase is IN_HEAD:
                place = self.read_head(data, place)
            elif self.chunked is not None:
                place = self.chunked.read(data, place)
                if self.chunked.complete:
                    self.complete(bytes(self.chunked.body))
            else:
                place = self.read_length(data, place)

    # Heads

    cdef Py_ssize_t begin(self, bytes data, Py_ssize_t place) except -1:
        """Begin a request at its first byte; the index of that."""
        cdef const char* at = PyBytes_AS_STRING(data)
        while place < len(data) and (at[place] == CR or at[place] == LF):
            place += 1
            self.blank_bytes += 1
            if self.blank_bytes > BLANK_BYTES_MAX:
                raise Refusal(400, "this is not HTTP/1.1: empty lines: send a request")
        if place == len(data):
            return place
        if not self.keep_alive:
            raise Refusal(400, "the request before this one has said that it is the last: open a new connection")
        if self.used:
            self.parser = httptools.HttpRequestParser(self)
            self.used = self.upgraded = False
        self.target = b""
        self.headers = {}
        self.blank_bytes = self.fed_bytes = self.head_bytes = self.header_lines = 0
        self.matched = self.spaces = 0
        self.in_first_line = True
        self.request = None
        self.phase = IN_HEAD
        return place

    cdef Py_ssize_t read_head(self, bytes data, Py_ssize_t start) except -1:
        """Feed the parser up to the end of the head, or of the data; the index behind that."""
        if self.in_first_line:
            self.check_first_line(data, start)
        cdef Py_ssize_t end = self.find_end(data, start)
        cdef Py_ssize_t allowed = start + self.fed_bytes_max - self.fed_bytes
        if end > allowed:
            self.matched = 0
            self.parse(data[start:allowed])
            raise self.too_many_headers()
        self.fed_bytes += end - start
        self.parse(data if start == 0 and end == len(data) else data[start:end])
        if self.matched == HEAD_END:
            if self.request is None:
                raise Refusal(400, "this is not HTTP/1.1: an empty line inside of the head")
            self.begin_body()
        return end

    cdef int check_first_line(self, bytes data, Py_ssize_t place) except -1:
        """Refuse a first line that is not method, target and version with a space between them; llhttp skips more."""
        cdef const char* at = PyBytes_AS_STRING(data)
        while place < len(data) and at[place] != CR:
            self.spaces += at[place] == SPACE
            place += 1
        self.in_first_line = place == len(data)
        if self.spaces > 2 or (self.spaces < 2 and not self.in_first_line):
            raise Refusal(400, "this is not HTTP/1.1: a request begins with method, target and version")

    cdef Py_ssize_t find_end(self, bytes data, Py_ssize_t start) noexcept:
        """The index behind the first CRLF CRLF, which may have begun in earlier data, or the end of the data."""
        cdef const char* at = PyBytes_AS_STRING(data)
        cdef const char* found
        cdef Py_ssize_t place = start, size = len(data)
        while place < size:
            if self.matched == 0:
                found = <const char*>memchr(at + place, CR, size - place)
                if found is NULL:
                    return size
                place = found - at
            if at[place] == CR:
                self.matched = 3 if self.matched == 2 else 1
            elif at[place] == LF and self.matched & 1:
                self.matched += 1
            else:
                self.matched = 0
            place += 1
            if self.matched == HEAD_END:
                return place
        return size

    cdef int parse(self, bytes data) except -1:
        """Let the parser read some of a head."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.used = self.upgraded = True  # and declined: this goes on in HTTP/1.1, as a server may that is asked for something else
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise Refusal(400, f"this is not HTTP/1.1: {error}") from None

    def too_many_headers(self) -> Refusal:
        what = f"{self.headers_max} lines or {self.head_bytes_max} bytes"
        return Refusal(431, f"the headers have over {what}: send less")

    # From the parser

    def on_url(self, bytes part) -> None:
        """The path and query, or some of it."""
        self.target += part
        if len(self.target) > self.limits.target_bytes_max:
            raise Refusal(414, f"path and query have over {self.limits.target_bytes_max} bytes: send a body")

    def on_header(self, bytes name, bytes value) -> None:
        """One header."""
        self.head_bytes += len(name) + len(value)
        self.header_lines += 1
        if self.header_lines > self.headers_max or self.head_bytes > self.head_bytes_max:
            raise self.too_many_headers()
        name = name.lower()
        if name not in self.headers:
            self.headers[name] = value
        elif name in SINGLE:
            raise Refusal(400, f"the header {name.decode()} is there twice: send it once")
        else:
            self.headers[name] += b", " + value

    def on_headers_complete(self) -> None:
        """Everything is known but the body."""
        headers, parser = self.headers, self.parser
        if self.matched != HEAD_END:
            raise Refusal(400, "this is not HTTP/1.1: a head ends with an empty line, and each line with CRLF")
        version = parser.get_http_version()
        if version not in VERSIONS:
            raise Refusal(400, "this is not HTTP/1.1: the version is another one")
        if b"host" not in headers and version != "1.0":
            raise Refusal(400, "the header Host is missing: send it")
        method = parser.get_method().decode()
        if method == "CONNECT":
            raise Refusal(405, "this is no proxy: ask for a path")
        target = self.target if self.target.startswith(b"/") else _path_of(self.target, headers.get(b"host", b""))
        self.keep_alive = parser.should_keep_alive()
        self.request = Request(method, target, headers, self.peer, version)
        self.request.head_bytes = self.fed_bytes

    # Bodies

    cdef int begin_body(self) except -1:
        """Decide how long the body is; a request without one is complete."""
        headers = self.headers
        cdef bytes length = headers.get(b"content-length")
        cdef bytes coding = headers.get(b"transfer-encoding")
        cdef object bytes_max = self.limits.body_bytes_max
        self.phase = IN_BODY
        self.chunked = None
        self.length = 0
        self.collected = None
        if coding is not None:
            if length is not None or coding.lower() != b"chunked" or self.request.version == "1.0":
                raise Refusal(400, "the only transfer coding is chunked, in HTTP/1.1 and without Content-Length")
            self.chunked = ChunkedBody(self.limits, bytes_max)
        elif length is not None:
            length = length.strip(b" \t")
            if not length.isdigit() or len(length) > LENGTH_DIGITS_MAX:
                raise Refusal(400, "Content-Length is not a number of bytes: correct it")
            self.length = int(length)
            if self.length > bytes_max:
                raise self.too_large(bytes_max)
        if b"expect" in headers:
            if headers[b"expect"].lower() != b"100-continue":
                raise Refusal(417, "the only expectation that is known here is 100-continue")
            self.awaits_continue = self.request.version != "1.0"
        if self.chunked is None and not self.length:
            self.complete(b"")
        else:
            self.used = True
            self.is_large = self.chunked is not None or self.length >= LARGE_BYTES_MIN or self.awaits_continue
            self.collected = bytearray()

    cdef Py_ssize_t read_length(self, bytes data, Py_ssize_t start) except -1:
        """Take what is missing of a body whose length is known; the index behind it."""
        cdef Py_ssize_t missing = self.length - len(self.collected)
        cdef Py_ssize_t end = min(start + missing, <Py_ssize_t>len(data))
        part = data if start == 0 and end == len(data) else data[start:end]
        if end - start == self.length:
            if not self.upgraded:
                self.parser.feed_data(part)  # it drops the body, and can read the next head: a new one takes longer
                self.used = False
            self.complete(part)
        else:
            self.collected += part
            if end - start == missing:
                self.complete(bytes(self.collected))
        return end

    cdef int complete(self, bytes body) except -1:
        """A request is complete."""
        request, self.request = self.request, None
        self.chunked = None
        self.collected = None
        self.phase = AT_REST
        self.awaits_continue = False
        request.body = body
        self.received(request, self.keep_alive)


def _path_of(target: bytes, host: bytes) -> bytes:
    """The path of a target that is written as for a proxy; it has to name the host that the header names."""
    if target == b"*":
        return target
    scheme = next((scheme for scheme in ABSOLUTE if target[: len(scheme)].lower() == scheme), None)
    if scheme is None:
        raise Refusal(400, "the target of a request begins with a slash")
    rest = target[len(scheme) :]
    start = min((index for index in (rest.find(b"/"), rest.find(b"?")) if index >= 0), default=len(rest))
    if rest[:start].lower() != host.lower():
        raise Refusal(400, "the target and the header Host name different hosts: send the same in both")
    path = rest[start:]
    return path if path.startswith(b"/") else b"/" + path


def nesting(bytes data not None) -> int:
    """How deep arrays and objects lie inside of each other in a JSON document; brackets in strings do not count."""
    cdef const unsigned char* at = data
    cdef const unsigned char* end = at + len(data)
    cdef const unsigned char* back
    cdef Py_ssize_t depth = 0, deepest = 0
    while at < end:
        if at[0] == c'"':
            while True:     # to the next quote that is not escaped: one after an even number of backslashes
                at = <const unsigned char*>memchr(at + 1, c'"', end - at - 1)
                if at == NULL:
                    return deepest
                back = at
                while (back - 1)[0] == c"\\":
                    back -= 1
                if (at - back) % 2 == 0:
                    break
        elif at[0] & 0xDF == c"[":      # { too
            depth += 1
            if depth > deepest:
                deepest = depth
        elif at[0] & 0xDF == c"]":      # } too
            depth -= 1
        at += 1
    return deepest
