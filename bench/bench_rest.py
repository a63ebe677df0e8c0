"""REST on a real server: send, take and acknowledge over 32 connections, then waking 1,000 receivers that wait."""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import uvloop

from bench.bench_http import REQUESTS, counted, drive
from bench.measure import report

WAITING = 1_000
PAYLOAD = "x" * 256
PORT = re.compile(r"http=[\d.]+:(\d+)")


class Requests:
    """What is asked of one port."""

    def __init__(self, port: int, token: str) -> None:
        self.port = port
        self.token = token
        self._head = f" HTTP/1.1\r\nHost: [::1]\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"

    def request(self, line: str, body: Any = None) -> bytes:
        data = b"" if body is None else json.dumps(body).encode()
        return f"{line}{self._head}Content-Length: {len(data)}\r\n\r\n".encode() + data


class Server(Requests):
    """A server process."""

    def __init__(self, process: subprocess.Popen[str], port: int, token: str) -> None:
        super().__init__(port, token)
        self._process = process

    def cpu_seconds(self) -> float:
        with open(f"/proc/{self._process.pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as data:
        leveret = [sys.executable, "-m", "leveret"]
        off = ["--amqp-port", "0", "--sqs-port", "off", "--http-port", "0"]
        room = ["--half-open-max", "5000", "--half-open-per-ip-max", "5000"]  # all receivers connect, then log in
        started = [*leveret, "serve", "--data", data, *off, *room]
        with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            line = next(line for line in process.stderr if PORT.search(line))
            found = PORT.search(line)
            assert found is not None
            made = subprocess.run(
                [*leveret, "tokens", "add", "guest", "*:*", "--json", "--data", data], capture_output=True, check=True
            )
            yield Server(process, int(found[1]), json.loads(made.stdout)["token"])
            process.terminate()


class Waiter(asyncio.Protocol):
    """A connection with one answer at a time."""

    def __init__(self) -> None:
        self.answered: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        assert data.startswith(b"HTTP/1.1 2"), data
        self.body = data[data.index(b"\r\n\r\n") + 4 :]
        self.answered.set_result(time.perf_counter())

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answered.done():
            self.answered.set_exception(error or ConnectionError("the server closed a connection that waited"))

    async def ask(self, request: bytes) -> bytes:
        self.answered = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        await self.answered
        return self.body


async def wake_up(running: Server) -> list[float]:
    """Milliseconds from each send to the answer of the one of all receivers whom it wakes."""
    loop = asyncio.get_running_loop()

    async def connect() -> Waiter:
        return (await loop.create_connection(Waiter, "127.0.0.1", running.port))[1]

    sender = await connect()
    await sender.ask(running.request("PUT /queues/waiting"))
    waiters = [await connect() for _ in range(WAITING)]
    for waiter in waiters:
        waiter.transport.write(running.request("POST /queues/waiting/dequeue", {"wait_seconds": 60}))
    stats = running.request("GET /queues/waiting/stats")
    while json.loads(await sender.ask(stats))["waiters"] < WAITING:
        for closed in (waiter for waiter in waiters if waiter.answered.done()):
            await closed.answered
        await asyncio.sleep(0.01)
    taken: list[float] = []
    pending = {waiter.answered for waiter in waiters}
    for _ in range(WAITING):
        started = time.perf_counter()
        await sender.ask(running.request("POST /queues/waiting/messages", {"payload": PAYLOAD}))
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        taken += [(each.result() - started) * 1000 for each in done]
    for each in (sender, *waiters):
        each.transport.close()
    return sorted(taken)


def main() -> None:
    with server() as running:
        receipts: list[tuple[str, str]] = []

        def received(body: bytes) -> bytes:
            if body:
                (message,) = json.loads(body)["messages"]
                receipts.append((message["message_id"], message["receipt_handle"]))
            return running.request("POST /queues/orders/dequeue", {"max_messages": 1})

        def next_receipt(_: bytes) -> bytes | None:
            if not receipts:
                return None
            message_id, receipt = receipts.pop()
            return running.request(f"DELETE /queues/orders/messages/{message_id}", {"receipt_handle": receipt})

        made = [running.request("PUT /queues/orders")] + [None] * 100
        uvloop.run(drive(running.port, lambda _: made.pop(0)))
        steps = {
            "enqueue": counted(lambda _: running.request("POST /queues/orders/messages", {"payload": PAYLOAD})),
            "dequeue": counted(received),
            "ack": next_receipt,
        }
        for name, step in steps.items():
            count = len(receipts) if name == "ack" else REQUESTS
            before = running.cpu_seconds()
            seconds = uvloop.run(drive(running.port, step))
            cpu_us = (running.cpu_seconds() - before) / count * 1e6
            report(f"rest_{name}", requests_per_s=round(count / seconds), cpu_us=round(cpu_us, 1), goal_cpu_us=150)
        ms = uvloop.run(wake_up(running))
        report(
            "rest_wake_up",
            waiting=WAITING,
            p50_ms=round(ms[len(ms) // 2], 2),
            p99_ms=round(ms[len(ms) * 99 // 100], 2),
            goal_p99_ms=10,
        )


if __name__ == "__main__":
    main()
