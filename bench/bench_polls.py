"""Long polls: 1,000 receivers wait for messages of one queue by SQS, and each message wakes one of them."""

import asyncio
import subprocess
import sys
import tempfile
import time

import uvloop

from bench.bench_sqs import free_port, process
from bench.measure import report
from bench.sqs_client import KEY, SECRET, Caller, Signer, drive

RECEIVERS = 1_000
MESSAGES = 1_000
PAUSE_S = 0.003


async def wait_for_all(port: int, signer: Signer) -> list[float]:
    """Let receivers wait, send one message after the other; give the seconds that each was on its way."""
    loop = asyncio.get_running_loop()
    receive = signer.request("ReceiveMessage", {"QueueUrl": "bench", "WaitTimeSeconds": 20})
    arrived: list[float] = []
    all_here = asyncio.Event()

    def next_receive(answer: bytes) -> bytes | None:
        if answer:
            arrived.append(time.perf_counter())
            if len(arrived) == MESSAGES:
                all_here.set()
            return None
        return receive

    callers = [Caller(port, next_receive, lambda: None) for _ in range(RECEIVERS)]
    for caller in callers:
        await loop.create_connection(lambda caller=caller: caller, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.sleep(1)
    send = signer.request("SendMessage", {"QueueUrl": "bench", "MessageBody": "x" * 256})
    sent: list[float] = []
    for _ in range(MESSAGES):
        sent.append(time.perf_counter())
        await drive_once(port, send)
        await asyncio.sleep(PAUSE_S)
    await asyncio.wait_for(all_here.wait(), 20)
    for caller in callers:
        caller.close()
    return sorted(there - left for left, there in zip(sent, arrived, strict=True))


async def drive_once(port: int, request: bytes) -> None:
    """One request on a connection of its own."""
    left = [request]
    await drive(port, 1, lambda answer: left.pop() if left else None)


def main() -> None:
    leveret = [sys.executable, "-m", "leveret"]
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--data", folder, "--amqp-port", "0", "--sqs-port", str(port)]
        with process([*leveret, "serve", *flags], port):
            key = ["keys", "add", "guest", "--id", KEY, "--secret", SECRET, "--data", folder]
            subprocess.run([*leveret, *key], check=True, stdout=subprocess.DEVNULL)
            signer = Signer(port)
            uvloop.run(drive_once(port, signer.request("CreateQueue", {"QueueName": "bench"})))
            took_s = uvloop.run(wait_for_all(port, signer))
    p50, p99 = (took_s[int(share * (MESSAGES - 1))] * 1000 for share in (0.5, 0.99))
    report("sqs_polls", receivers=RECEIVERS, p50_ms=round(p50, 2), p99_ms=round(p99, 2))


if __name__ == "__main__":
    main()
