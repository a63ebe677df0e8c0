"""Load for a port for SQS: connections that stay open, and requests that are signed with as little work as possible."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from leveret.cli.bench import sqs

KEY, SECRET, REGION = "AKIABENCH", "bench", "us-east-1"
HANDLE = re.compile(rb'"ReceiptHandle":\s*"([^"]+)"')

NextRequest = Callable[[bytes], bytes | None]
"""The next request of a connection, given the answer to the last one; None at the end."""


class Signer:
    """Signed requests to one endpoint, with the headers that SDKs send."""

    def __init__(self, port: int) -> None:
        self._signer = sqs.Signer(f"127.0.0.1:{port}", "/", KEY, SECRET, REGION)

    def request(self, action: str, parameters: dict[str, Any]) -> bytes:
        """A whole request."""
        body = json.dumps(parameters).encode()
        head = "".join(f"{name}: {value}\r\n" for name, value in self._signer.headers(action, body).items())
        return (
            f"POST / HTTP/1.1\r\n{head}user-agent: Boto3/1.44 md/Botocore#1.44\r\n"
            f"amz-sdk-request: attempt=1\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode() + body


class Caller(asyncio.Protocol):
    """One connection: sends the next request when it has the answer to the last one.

    A server that closes after an answer is connected to again.
    """

    def __init__(self, port: int, next_request: NextRequest, done: Callable[[], None]) -> None:
        self._port, self._next, self._done = port, next_request, done
        self._read = self._waiting = b""
        self._connecting: asyncio.Task[object] | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._waiting:
            self._transport.write(self._waiting)
        else:
            self._go_on(b"", keep=True)

    def close(self) -> None:
        assert self._transport is not None, "it was connected"
        self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._read += data
        end = self._read.find(b"\r\n\r\n") + 4
        if end < 4:
            return
        head = self._read[:end].lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        if len(self._read) >= end + length:
            assert head.startswith(b"http/1.1 200"), self._read
            body, self._read = self._read[end : end + length], b""
            self._go_on(body, keep=b"\r\nconnection: close" not in head)

    def _go_on(self, body: bytes, keep: bool) -> None:
        request = self._next(body)
        if request is None:
            self._done()
        elif keep and self._transport is not None:
            self._transport.write(request)
        else:
            self._waiting = request
            loop = asyncio.get_running_loop()
            self.close()
            self._connecting = loop.create_task(loop.create_connection(lambda: self, "127.0.0.1", self._port))


def _same(caller: Caller) -> Caller:
    return caller


async def drive(port: int, connections: int, next_request: NextRequest) -> float:
    """Ask until there is nothing more to ask; gives the seconds."""
    loop = asyncio.get_running_loop()
    finished = asyncio.Event()
    left = connections

    def done() -> None:
        nonlocal left
        left -= 1
        if not left:
            finished.set()

    started = time.perf_counter()
    callers = [Caller(port, next_request, done) for _ in range(connections)]
    for caller in callers:
        await loop.create_connection(partial(_same, caller), "127.0.0.1", port)
    await finished.wait()
    for caller in callers:
        caller.close()
    return time.perf_counter() - started
