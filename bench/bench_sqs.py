"""SQS over 32 connections, signed: 256 bytes one by one and in batches of ten; moto's server in the same run if it is
installed (pip install 'moto[server]'): it checks no signatures, keeps everything in memory and closes connections.
"""

import importlib.util
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from bench.measure import cpu_seconds, report
from bench.sqs_client import HANDLE, KEY, SECRET, NextRequest, Signer, drive

CONNECTIONS = 32
BODY = "x" * 256
BATCH = 10
ACCOUNT = "123456789012"  # of moto; ours looks at the name only
LEVERET_REQUESTS = 16_000
MOTO_REQUESTS = 320
START_S = 30


class Side:
    """A server that is measured."""

    def __init__(self, name: str, port: int, pids: list[int], requests: int) -> None:
        self.name, self.port, self.pids, self.requests = name, port, pids, requests
        self.signer = Signer(port)
        self.url = f"http://127.0.0.1:{port}/{ACCOUNT}/bench"
        self.handles: list[str] = []
        self.rates: dict[str, float] = {}

    def measure(self, what: str, count: int, per_request: int, next_request: NextRequest) -> None:
        before = cpu_seconds(self.pids)
        seconds = uvloop.run(drive(self.port, CONNECTIONS, next_request))
        cpu_us = (cpu_seconds(self.pids) - before) / count * 1e6
        self.rates[what] = count * per_request / seconds
        report(
            f"sqs_{self.name}_{what}",
            requests_per_s=round(count / seconds),
            messages_per_s=round(count * per_request / seconds),
            cpu_us=round(cpu_us, 1),
        )

    # What is asked

    def repeated(self, action: str, count: int, **parameters: object) -> NextRequest:
        """The same request a number of times; the receipt handles in the answers are kept."""
        request = self.signer.request(action, {"QueueUrl": self.url, **parameters})
        left = count

        def next_request(answer: bytes) -> bytes | None:
            nonlocal left
            self.handles += [handle.decode() for handle in HANDLE.findall(answer)]
            left -= 1
            return request if left >= 0 else None

        return next_request

    def deletions(self, batch: int) -> NextRequest:
        """Requests that delete what was received."""

        def next_request(_: bytes) -> bytes | None:
            handles = [self.handles.pop() for _ in range(min(batch, len(self.handles)))]
            if not handles:
                return None
            if batch == 1:
                return self.signer.request("DeleteMessage", {"QueueUrl": self.url, "ReceiptHandle": handles[0]})
            entries = [{"Id": str(number), "ReceiptHandle": handle} for number, handle in enumerate(handles)]
            return self.signer.request("DeleteMessageBatch", {"QueueUrl": self.url, "Entries": entries})

        return next_request

    def run(self) -> None:
        """One message in each request."""
        count = self.requests
        uvloop.run(drive(self.port, 1, self.repeated("CreateQueue", 1, QueueName="bench")))
        self.measure("send", count, 1, self.repeated("SendMessage", count, MessageBody=BODY))
        self.measure("receive", count, 1, self.repeated("ReceiveMessage", count))
        self.measure("delete", len(self.handles), 1, self.deletions(1))

    def run_batches(self) -> None:
        """Ten messages in each request."""
        batches = self.requests // 4
        entries = [{"Id": str(number), "MessageBody": BODY} for number in range(BATCH)]
        self.measure("send_batch", batches, BATCH, self.repeated("SendMessageBatch", batches, Entries=entries))
        receive = self.repeated("ReceiveMessage", batches, MaxNumberOfMessages=BATCH)
        self.measure("receive_batch", batches, BATCH, receive)
        self.measure("delete_batch", len(self.handles) // BATCH, BATCH, self.deletions(BATCH))
        through = 1 / sum(1 / self.rates[f"{step}_batch"] for step in ("send", "receive", "delete"))
        report(f"sqs_{self.name}_through_batches", messages_per_s=round(through))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    return port


@contextmanager
def process(command: list[str], port: int) -> Iterator[int]:
    """A server in a process of its own, ready to be asked."""
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as running:
        deadline = time.monotonic() + START_S
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except OSError:
                    assert running.poll() is None, f"it did not start: {command}"
                    assert time.monotonic() < deadline, f"it does not listen: {command}"
                    time.sleep(0.05)
            yield running.pid
        finally:
            running.terminate()
            running.wait()


def measure_leveret(folder: str) -> dict[str, float]:
    leveret = [sys.executable, "-m", "leveret"]
    port = free_port()
    flags = ["--data", folder, "--amqp-port", "0", "--sqs-port", str(port)]
    with process([*leveret, "serve", *flags], port) as pid:
        key = ["keys", "add", "guest", "--id", KEY, "--secret", SECRET, "--data", folder]
        subprocess.run([*leveret, *key], check=True, stdout=subprocess.DEVNULL)
        side = Side("leveret", port, [pid], LEVERET_REQUESTS)
        side.run()
        side.run_batches()
    return side.rates


def measure_moto() -> dict[str, float]:
    port = free_port()
    with process([sys.executable, "-m", "moto.server", "-p", str(port)], port) as pid:
        side = Side("moto", port, [pid], MOTO_REQUESTS)
        # Not in batches: it answers many of those with 500 when they come at the same time.
        side.run()
    return side.rates


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        ours = measure_leveret(folder)
    if importlib.util.find_spec("moto") is None:
        return
    theirs = measure_moto()
    report("sqs_times_moto", **{step: round(ours[step] / rate, 1) for step, rate in theirs.items()})


if __name__ == "__main__":
    main()
