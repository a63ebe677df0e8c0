"""HTTP over 32 connections that stay open: a plain answer, then send, receive and ack of 256 bytes, durable each."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from typing import cast

import uvloop

from bench.measure import report

CONNECTIONS = 32
REQUESTS = 20_000
BODY = b"x" * 256
# The headers that a client of AWS sends, so that the parser has as much to do.
HEADERS = (
    b"Host: 127.0.0.1:9324\r\nX-Amz-Target: AmazonSQS.SendMessage\r\nContent-Type: application/x-amz-json-1.0\r\n"
    b"User-Agent: Boto3/1.40 md/Botocore#1.40 ua/2.1 os/linux#6 md/arch#x86_64 lang/python#3.11\r\n"
    b"X-Amz-Date: 20260101T000000Z\r\nAuthorization: AWS4-HMAC-SHA256 Credential=" + b"a" * 180 + b"\r\n"
    b"amz-sdk-invocation-id: 00000000-0000-0000-0000-000000000000\r\namz-sdk-request: attempt=1\r\n"
)


def request(line: bytes, body: bytes = b"") -> bytes:
    return line + b" HTTP/1.1\r\n" + HEADERS + b"Content-Length: %d\r\n\r\n" % len(body) + body


class Caller(asyncio.Protocol):
    """One connection: sends the next request when it has the answer to the last one."""

    def __init__(self, next_request: Callable[[bytes], bytes | None], done: Callable[[], None]) -> None:
        self._next, self._done = next_request, done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._go_on(b"")

    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 2"), data
        self._go_on(data[data.index(b"\r\n\r\n") + 4 :])

    def _go_on(self, body: bytes) -> None:
        sent = self._next(body)
        if sent is None:
            self._done()
        else:
            self._transport.write(sent)


async def drive(port: int, next_request: Callable[[bytes], bytes | None]) -> float:
    """Ask until there is nothing more to ask; gives the seconds."""
    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    left = CONNECTIONS

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            finished.set()

    started = time.perf_counter()
    opened = [
        await loop.create_connection(lambda: Caller(next_request, done), "127.0.0.1", port) for _ in range(CONNECTIONS)
    ]
    await finished.wait()
    for transport, _ in opened:
        transport.close()
    return time.perf_counter() - started


def counted(made: Callable[[bytes], bytes]) -> Callable[[bytes], bytes | None]:
    """The same request a number of times."""
    left = REQUESTS

    def next_request(body: bytes) -> bytes | None:
        nonlocal left
        left -= 1
        return made(body) if left >= 0 else None

    return next_request


def main() -> None:
    receipts: list[bytes] = []

    def received(body: bytes) -> bytes:
        if body:
            receipts.append(body)
        return request(b"POST /queues/orders/dequeue")

    def next_receipt(_: bytes) -> bytes | None:
        return request(b"POST /queues/orders/ack", receipts.pop()) if receipts else None

    steps = {
        "hello": counted(lambda _: request(b"GET /")),
        "send": counted(lambda _: request(b"POST /queues/orders/messages", BODY)),
        "receive": counted(received),
        "ack": next_receipt,
    }
    with subprocess.Popen(
        [sys.executable, "-m", "bench.http_child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def cpu_seconds() -> float:
            child.stdin.write("\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]
            return float(child.stdout.readline())  # type: ignore[union-attr]

        port = int(child.stdout.readline())
        for name, step in steps.items():
            before = cpu_seconds()
            seconds = uvloop.run(drive(port, step))
            cpu = cpu_seconds() - before
            count = REQUESTS - CONNECTIONS if name == "ack" else REQUESTS
            report(f"http_{name}", requests_per_s=round(count / seconds), cpu_us=round(cpu / count * 1e6, 1))
        child.stdin.close()


if __name__ == "__main__":
    main()
