"""The floods, each from ATTACKER until it is stopped: `python -m tests.attack.floods NAME SECONDS AMQP HTTP SQS`.

Every flood is bounded: in connections, in new connections a second, in bytes a second, and in time.
"""

import asyncio
import base64
import json
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

from leveret.wire import methods as m
from leveret.wire.frames import PROTOCOL_HEADER
from tests.protocols.amqp.wire import method_frame

ATTACKER = "127.0.0.2"
USER, PASSWORD = "mallory", "mallory-has-a-login"
POLICYMAKER = "eve"
MIB = 1 << 20
CONNECTIONS_PER_S = 400  # that one flood opens
BYTES_PER_S = 100 * MIB  # that one flood sends
PIECE_BYTES = 65_536
NICE = 10  # an attacker has a machine of its own: it must not take the CPU of those who measure

Reader: TypeAlias = asyncio.StreamReader
Writer: TypeAlias = asyncio.StreamWriter
Talk = Callable[[Reader, Writer], Awaitable[None]]


@dataclass(frozen=True)
class Ports:
    """Where the server listens."""

    amqp: int
    http: int
    sqs: int


class Budget:
    """So many of something in a second, for all tasks of a flood together."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._next_s = 0.0

    async def take(self, amount: float = 1) -> None:
        """Wait for our turn."""
        now_s = asyncio.get_running_loop().time()
        self._next_s = max(self._next_s, now_s) + amount / self._per_s
        await asyncio.sleep(self._next_s - now_s)


CONNECTS, BYTES = Budget(CONNECTIONS_PER_S), Budget(BYTES_PER_S)


async def crowd(port: int, size: int, talk: Talk) -> None:
    """Keep that many connections; each that ends is opened again."""

    async def member() -> None:
        while True:
            await CONNECTS.take()
            with suppress(OSError, asyncio.IncompleteReadError):
                reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(ATTACKER, 0))
                try:
                    await talk(reader, writer)
                finally:
                    writer.transport.abort()

    await asyncio.gather(*(member() for _ in range(size)))


async def until_closed(reader: Reader, writer: Writer) -> None:
    """Say nothing and read whatever comes."""
    while await reader.read(PIECE_BYTES):
        pass


async def pour(writer: Writer, piece: bytes, total_bytes: int) -> None:
    """Send a piece again and again, as fast as the server reads and the budget allows."""
    for _ in range(0, total_bytes, len(piece)):
        await BYTES.take(len(piece))
        writer.write(piece)
        await writer.drain()


def basic(user: str, password: str) -> str:
    """The header of a password."""
    return "Authorization: Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


KNOWN = basic(USER, PASSWORD)


def head(line: str, *headers: str) -> bytes:
    """The head of a request."""
    return "\r\n".join((f"{line} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


# Before login


def silent_amqp(ports: Ports) -> Awaitable[None]:
    """Sockets on the AMQP port that say nothing."""
    return crowd(ports.amqp, 1_500, until_closed)


def silent_http(ports: Ports) -> Awaitable[None]:
    """Sockets on the HTTP port that say nothing."""
    return crowd(ports.http, 1_500, until_closed)


def silent_sqs(ports: Ports) -> Awaitable[None]:
    """Sockets on the SQS port that say nothing."""
    return crowd(ports.sqs, 1_500, until_closed)


def slow_heads(ports: Ports) -> Awaitable[None]:
    """Requests whose headers come a byte at a time."""

    async def talk(reader: Reader, writer: Writer) -> None:
        for byte in head("GET /api/overview", "X-Slow: " + "x" * 1_000):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0.5)

    return crowd(ports.http, 500, talk)


def bodies(ports: Ports, *headers: str) -> Awaitable[None]:
    """Bodies of 20 MiB whose last byte never comes."""

    async def talk(reader: Reader, writer: Writer) -> None:
        writer.write(head("POST /queues/none/messages", f"Content-Length: {20 * MIB}", *headers))
        await pour(writer, bytes(PIECE_BYTES), 20 * MIB - PIECE_BYTES)
        await until_closed(reader, writer)

    return crowd(ports.http, 48, talk)


def slow_bodies(ports: Ports) -> Awaitable[None]:
    """The same, without credentials."""
    return bodies(ports)


def sqs_bodies(ports: Ports) -> Awaitable[None]:
    """Bodies for the SQS port, which signs nothing."""

    async def talk(reader: Reader, writer: Writer) -> None:
        length = f"Content-Length: {8 * MIB}"
        writer.write(head("POST /", length, "X-Amz-Target: AmazonSQS.SendMessage"))
        await pour(writer, bytes(PIECE_BYTES), 8 * MIB - PIECE_BYTES)
        await until_closed(reader, writer)

    return crowd(ports.sqs, 48, talk)


def trailers(ports: Ports) -> Awaitable[None]:
    """Chunked bodies with 32 MiB of trailers, of which each is a line without end."""

    async def talk(reader: Reader, writer: Writer) -> None:
        writer.write(head("POST /queues/none/messages", "Transfer-Encoding: chunked", KNOWN) + b"0\r\nX-Trailer: ")
        await pour(writer, b"x" * PIECE_BYTES, 32 * MIB)

    return crowd(ports.http, 8, talk)


def extensions(ports: Ports) -> Awaitable[None]:
    """Chunks of two bytes, each with an extension of a kilobyte."""

    async def talk(reader: Reader, writer: Writer) -> None:
        writer.write(head("POST /queues/none/messages", "Transfer-Encoding: chunked", KNOWN))
        await pour(writer, (b"2;x=" + b"y" * 1_000 + b"\r\nab\r\n") * 64, 32 * MIB)

    return crowd(ports.http, 8, talk)


def amqp_frames(ports: Ports) -> Awaitable[None]:
    """A protocol header, then frames that announce 4 GiB, or that are not of this protocol."""

    async def talk(reader: Reader, writer: Writer) -> None:
        writer.write(PROTOCOL_HEADER + b"\x01\x00\x00\xff\xff\xff\xff" + os.urandom(4_096))
        await pour(writer, os.urandom(PIECE_BYTES), MIB)

    return crowd(ports.amqp, 64, talk)


def amqp_passwords(ports: Ports) -> Awaitable[None]:
    """Wrong passwords over AMQP, 60 in flight, for names that change."""
    numbers = count()

    async def talk(reader: Reader, writer: Writer) -> None:
        response = b"\0%b\0wrong-%d" % ((b"guest", b"user-%d" % next(numbers))[next(numbers) % 2], next(numbers))
        writer.write(PROTOCOL_HEADER)
        await reader.read(PIECE_BYTES)
        writer.write(method_frame(0, m.ConnectionStartOk({}, "PLAIN", response, "en_US")))
        await until_closed(reader, writer)

    return crowd(ports.amqp, 60, talk)


async def ask_again(ports_port: int, size: int, request: Callable[[], bytes], pause_s: float = 0.0) -> None:
    """Connections that send a request, read the answer and send the next one."""

    async def talk(reader: Reader, writer: Writer) -> None:
        while True:
            writer.write(request())
            answer = await reader.readuntil(b"\r\n\r\n")
            _, _, rest = answer.lower().partition(b"content-length: ")
            if rest:
                await reader.readexactly(int(rest.partition(b"\r\n")[0]))
            await asyncio.sleep(pause_s)

    await crowd(ports_port, size, talk)


def http_passwords(ports: Ports) -> Awaitable[None]:
    """Wrong passwords over HTTP, 60 in flight."""
    numbers = count()
    return ask_again(ports.http, 60, lambda: head("GET /api/whoami", basic("guest", f"wrong-{next(numbers)}")))


def sqs_signatures(ports: Ports) -> Awaitable[None]:
    """Wrong signatures on the SQS port."""
    scope = "Credential=AKIANONE/20260101/us-east-1/sqs/aws4_request"
    proof = f"Authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}"
    headers = ("X-Amz-Date: 20260101T000000Z", "X-Amz-Target: AmazonSQS.ListQueues", "Content-Length: 2", proof)
    return ask_again(ports.sqs, 60, lambda: head("POST /", *headers) + b"{}")


# After login


def known_bodies(ports: Ports) -> Awaitable[None]:
    """Bodies of 20 MiB whose last byte never comes, of a user with a password."""
    return bodies(ports, KNOWN)


def tiny_chunks(ports: Ports) -> Awaitable[None]:
    """Bodies in chunks of two bytes, of a user with a password."""

    async def talk(reader: Reader, writer: Writer) -> None:
        writer.write(head("POST /queues/none/messages", "Transfer-Encoding: chunked", KNOWN))
        await pour(writer, b"2\r\nab\r\n" * 4_096, 64 * MIB)

    return crowd(ports.http, 24, talk)


def patterns(ports: Ports) -> Awaitable[None]:
    """Patterns that take a backtracking engine for ever, in the filter of a list."""
    filters = ("(.%3F){100}x$", "^(a%2B)%2B$", ".%3F" * 60 + "z")
    numbers = count()
    return ask_again(
        ports.http,
        8,
        lambda: head(f"GET /api/queues?page=1&use_regex=true&name={filters[next(numbers) % 3]}", KNOWN),
    )


def policies(ports: Ports) -> Awaitable[None]:
    """Policies whose patterns take a backtracking engine for ever."""
    numbers = count()

    def request() -> bytes:
        number = next(numbers)
        body = json.dumps({"pattern": "^a.(a+)+$" + "a?" * 50, "definition": {"max-length": number + 1}}).encode()
        headers = (basic(POLICYMAKER, PASSWORD), "Content-Type: application/json", f"Content-Length: {len(body)}")
        return head(f"PUT /api/policies/%2F/p{number % 5}", *headers) + body

    return ask_again(ports.http, 4, request, pause_s=0.05)


def refusals(ports: Ports) -> Awaitable[None]:
    """Requests that are refused, of a user without any permission: each is a line for the audit log."""
    return ask_again(
        ports.http, 16, lambda: head("PUT /queues/" + "q" * 200, KNOWN, "Content-Length: 2") + b"{}", pause_s=0.005
    )


def unread_answers(ports: Ports) -> Awaitable[None]:
    """Requests without end, whose answers are not read."""

    async def talk(reader: Reader, writer: Writer) -> None:
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        await pour(writer, head("GET /openapi.json") * 100, 4 * MIB)
        await asyncio.sleep(60)

    return crowd(ports.http, 100, talk)


FLOODS: dict[str, Callable[[Ports], Awaitable[None]]] = {
    flood.__name__.replace("_", "-"): flood
    for flood in (
        silent_amqp,
        silent_http,
        silent_sqs,
        slow_heads,
        slow_bodies,
        sqs_bodies,
        trailers,
        extensions,
        amqp_frames,
        amqp_passwords,
        http_passwords,
        sqs_signatures,
        known_bodies,
        tiny_chunks,
        patterns,
        policies,
        refusals,
        unread_answers,
    )
}


async def run(name: str, seconds: float, ports: Ports) -> None:
    """Attack for so long; standard input that ends, ends it earlier."""
    with suppress(TimeoutError):
        await asyncio.wait_for(FLOODS[name](ports), seconds)


if __name__ == "__main__":
    os.nice(NICE)
    asyncio.run(run(sys.argv[1], float(sys.argv[2]), Ports(*map(int, sys.argv[3:6]))))
