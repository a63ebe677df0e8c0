"""Requests that proxies and servers have understood differently, and requests that take too much: each is refused."""

from collections.abc import Iterator

from tests.fuzz.http_reading import LIMITS

GET = b"GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def lengths() -> Iterator[tuple[str, bytes]]:
    """Lengths of bodies that are none, or that are there twice."""
    texts = {
        "a sign": b"+5",
        "minus": b"-5",
        "hexadecimal": b"0x5",
        "a fraction": b"5.0",
        "an underscore": b"1_0",
        "spaces inside": b"1 0",
        "a list": b"5, 5",
        "two": b"5\r\nContent-Length: 5",
        "two different": b"5\r\nContent-Length: 6",
        "nothing": b"",
        "65 bits": b"18446744073709551616",
        "letters": b"five",
        "Arabic digits": "\u0665".encode(),
        "a line feed": b"5\n",
        "a zero byte": b"5\0",
    }
    for name, text in texts.items():
        yield f"length: {name}", POST + b"Content-Length: " + text + b"\r\n\r\nhello" + GET


def codings() -> Iterator[tuple[str, bytes]]:
    """Both a length and chunks, and chunks by other names."""
    body = b"0\r\n\r\n" + GET
    yield "length, then chunks", POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n" + body
    yield "chunks, then length", POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + body
    spellings = {
        "tab": b"Transfer-Encoding:\tchunked\x0b",
        "vertical tab": b"Transfer-Encoding: \x0bchunked",
        "space before the colon": b"Transfer-Encoding : chunked",
        "in a fold": b"Transfer-Encoding:\r\n chunked",
        "after a fold": b"X: y\r\n Transfer-Encoding: chunked",
        "quoted": b'Transfer-Encoding: "chunked"',
        "with a parameter": b"Transfer-Encoding: chunked;q=1",
        "with a comma": b"Transfer-Encoding: chunked,",
        "twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "twice in a line": b"Transfer-Encoding: chunked, chunked",
        "and identity": b"Transfer-Encoding: chunked, identity",
        "identity": b"Transfer-Encoding: identity",
        "after identity": b"Transfer-Encoding: identity, chunked",
        "after gzip": b"Transfer-Encoding: gzip, chunked",
        "xchunked": b"Transfer-Encoding: xchunked",
        "chunk": b"Transfer-Encoding: chunk",
        "nothing": b"Transfer-Encoding:",
        "a zero byte in the name": b"Transfer\0Encoding: chunked",
        "an underscore": b"Transfer_Encoding: chunked\r\nTransfer-Encoding: cow",
        "behind a line feed": b"X: y\nTransfer-Encoding: chunked",
        "behind a carriage return": b"X: y\rTransfer-Encoding: chunked",
    }
    for name, line in spellings.items():
        yield f"coding: {name}", POST + line + b"\r\n\r\n" + body
    yield "chunks of HTTP/1.0", b"POST / HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" + body


def chunks() -> Iterator[tuple[str, bytes]]:
    """Sizes that are none, and lines that end in another way."""
    sizes = (b"+5", b"-5", b"0x5", b" 5", b"5 ", b"\t5", b"5\t", b"5 ;a", b"", b";a", b"5_0", b"g", b"\xb5")
    for size in (*sizes, b"10000000000000005", b"00000000000000005", b"ffffffffffffffff", b"7fffffffffffffff"):
        yield f"chunk of {size!r}", CHUNKED + size + b"\r\nhello\r\n0\r\n\r\n" + GET
    yield "a chunk that is longer than it says", CHUNKED + b"3\r\nhello\r\n0\r\n\r\n"
    yield "a chunk that is shorter than it says", CHUNKED + b"7\r\nhello\r\n0\r\n\r\n"
    yield "chunks with line feeds", CHUNKED + b"5\nhello\n0\n\n" + GET
    yield "a chunk with a carriage return", CHUNKED + b"5\rhello\r0\r\r" + GET
    yield "a line feed in an extension", CHUNKED + b"5;a\nhello\r\n0\r\n\r\n" + GET
    yield "a carriage return in an extension", CHUNKED + b"5;a\rb\r\nhello\r\n0\r\n\r\n" + GET
    yield "a zero byte in an extension", CHUNKED + b"5;a\0\r\nhello\r\n0\r\n\r\n" + GET
    yield "a chunk of 64 bits after another", CHUNKED + b"1\r\nx\r\nffffffffffffffff\r\nx"


def endless() -> Iterator[tuple[str, bytes]]:
    """Whatever may come without an end."""
    extension, trailer = LIMITS.extension_bytes_max, LIMITS.trailer_bytes_max
    yield "an extension without an end", CHUNKED + b"5;" + b"a" * extension
    yield "extensions on many chunks", CHUNKED + b"1;a\r\nx\r\n" * (LIMITS.extensions_max + 1)
    yield "long extensions on some chunks", CHUNKED + (b"1;" + b"a" * (extension // 4) + b"\r\nx\r\n") * 4
    yield "a trailer without an end", CHUNKED + b"0\r\nt: " + b"v" * trailer
    yield "a name of a trailer without an end", CHUNKED + b"0\r\n" + b"t" * (trailer + 1)
    yield "many trailers", CHUNKED + b"0\r\n" + b"t: v\r\n" * (LIMITS.trailers_max + 1)
    yield "long trailers together", CHUNKED + b"0\r\n" + (b"t: " + b"v" * (trailer // 4) + b"\r\n") * 4
    yield "tiny chunks", CHUNKED + b"1\r\nx\r\n" * (LIMITS.body_bytes_max + 1)
    yield "a header without an end", POST + b"A: " + b"b" * 4_000
    yield "a name of a header without an end", POST + b"a" * 4_000
    yield "a target without an end", b"GET /" + b"a" * 4_000
    yield "many headers", POST + b"a: b\r\n" * 1_000
    yield "empty lines", b"\r\n" * 1_000
    yield "a body that is too long", POST + b"Content-Length: 2001\r\n\r\n"


def heads() -> Iterator[tuple[str, bytes]]:
    """Lines that end in another way, and targets for two hosts."""
    yield "line feeds", b"GET / HTTP/1.1\nHost: x\n\n" + GET
    yield "a line feed at the end", b"GET / HTTP/1.1\r\nHost: x\r\n\n" + GET
    yield "a carriage return at the end", b"GET / HTTP/1.1\r\nHost: x\r\n\r" + GET
    yield "a bare carriage return", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\rC: d\r\n\r\n"
    yield "a folded header", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n"
    yield "a folded first header", b"GET / HTTP/1.1\r\n Host: x\r\nHost: y\r\n\r\n"
    yield "a zero byte", b"GET / HTTP/1.1\r\nHost: x\r\nA: b\0c\r\n\r\n"
    yield "a zero byte in a name", b"GET / HTTP/1.1\r\nHost: x\r\nA\0: b\r\n\r\n"
    yield "a name without a value", b"GET / HTTP/1.1\r\nHost: x\r\nA\r\n\r\n"
    yield "no name", b"GET / HTTP/1.1\r\nHost: x\r\n: b\r\n\r\n"
    yield "two hosts", b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"
    yield "no host", b"GET / HTTP/1.1\r\n\r\n"
    yield "a target of another host", b"GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a target without a slash", b"GET x HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "two spaces", b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a space in the target", b"GET /a b HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a tab", b"GET\t/\tHTTP/1.1\r\nHost: x\r\n\r\n"
    yield "no version", b"GET /\r\nHost: x\r\n\r\n"
    yield "no version, and a line feed", b"GET /x\nHost: x\r\n\r\n"
    yield "another version", b"GET / HTTP/1.2\r\nHost: x\r\n\r\n"
    yield "HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    yield "lower case", b"get / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a tunnel", b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "an answer", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    yield "more after the last request", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" + GET
    yield "more after a last request with a body", POST + b"Connection: close\r\nContent-Length: 1\r\n\r\nx" + GET


REFUSED = {name: data for part in (lengths, codings, chunks, endless, heads) for name, data in part()}
UPGRADE = b"Connection: upgrade\r\nUpgrade: h2c\r\n"
READ: dict[str, tuple[int, bytes]] = {
    "one": (1, GET),
    "two": (2, GET + GET),
    "an empty line before": (1, b"\r\n" + GET),
    "a request inside of a body": (1, POST + b"Content-Length: %d\r\n\r\n" % len(GET) + GET),
    "a request inside of a chunk": (2, CHUNKED + b"%x\r\n" % len(GET) + GET + b"\r\n0\r\n\r\n" + GET),
    "chunks with extensions and trailers": (2, CHUNKED + b'5;a="b;c"; d\r\nhello\r\n00;e\r\nt: v\r\n\r\n' + GET),
    "chunks in capitals": (2, POST + b"Transfer-Encoding: CHUNKED\r\n\r\nA\r\n0123456789\r\n0\r\n\r\n" + GET),
    "a length with zeros": (2, POST + b"Content-Length: 005\r\n\r\nhello" + GET),
    "a length of nothing": (2, POST + b"Content-Length: 0\r\n\r\n" + GET),
    "an offer of another protocol": (3, POST + UPGRADE + b"Content-Length: 5\r\n\r\nhello" + GET + GET),
    "an offer with chunks": (2, POST + UPGRADE + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n" + GET),
    "an offer without a body": (2, b"GET / HTTP/1.1\r\nHost: x\r\n" + UPGRADE + b"\r\n" + GET),
    "HTTP/1.0": (1, b"GET / HTTP/1.0\r\n\r\n"),
    "the last request": (1, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n\r\n"),
    "a proxy's target": (1, b"GET http://x/a HTTP/1.1\r\nHost: x\r\n\r\n"),
    "an unfinished body": (0, POST + b"Content-Length: 5\r\n\r\nhell"),
    "an unfinished chunk": (0, CHUNKED + b"5\r\nhell"),
    "an unfinished head": (0, GET[:-2]),
}
"""What is read: how many requests, and the bytes."""
CORPUS = REFUSED | {name: data for name, (_, data) in READ.items()}
