"""Clients for Python on the same broker, each in a process of its own: 1 KB, durable, confirmed.

one by one       a program waits for each confirm before it sends the next message
in flight        calls for single messages, 5,000 of them at once (tasks), or by 32 threads
in batches       one call for many messages
received         messages pushed or taken, each acknowledged by itself

The clients take turns, round after round, so that each has the same machine; a figure is the median of its rounds. CPU
is that of the client's process.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import leveret
from bench.bench_sqs import free_port, process
from bench.client_child import BODY, QUEUE
from bench.measure import progress, report
from bench.sqs_client import KEY, SECRET

QUICK = bool(os.environ.get("QUICK"))
ROUNDS = 1 if QUICK else 3
LEVERET = [sys.executable, "-m", "leveret"]


class Case(NamedTuple):
    """A client at one kind of work: a function of bench/client_child.py, and how many messages."""

    kind: str
    client: str
    function: str
    protocol: str
    messages: int


CASES = [
    Case("one by one", "leveret amqp", "leveret_send", "amqp", 500),
    Case("one by one", "leveret amqp, asyncio", "leveret_asend", "amqp", 500),
    Case("one by one", "leveret http", "leveret_send", "http", 500),
    Case("one by one", "pika", "pika_send", "amqp", 500),
    Case("one by one", "aio-pika", "aio_pika_send", "amqp", 500),
    Case("one by one", "kombu", "kombu_send", "amqp", 500),
    Case("one by one", "boto3", "boto3_send", "sqs", 200),
    Case("in flight", "leveret amqp, asyncio", "leveret_gather", "amqp", 50_000),
    Case("in flight", "leveret amqp", "leveret_threads", "amqp", 10_000),
    Case("in flight", "leveret http, asyncio", "leveret_gather", "http", 2_000),
    Case("in flight", "aio-pika", "aio_pika_gather", "amqp", 10_000),
    Case("in batches", "leveret amqp", "leveret_batches", "amqp", 300_000),
    Case("in batches", "leveret http", "leveret_batches", "http", 20_000),
    Case("in batches", "boto3", "boto3_batches", "sqs", 2_000),
    Case("received", "leveret amqp", "leveret_receive", "amqp", 100_000),
    Case("received", "leveret amqp, asyncio", "leveret_areceive", "amqp", 100_000),
    Case("received", "leveret http", "leveret_receive", "http", 500),
    Case("received", "pika", "pika_receive", "amqp", 10_000),
    Case("received", "aio-pika", "aio_pika_receive", "amqp", 10_000),
    Case("received", "kombu", "kombu_receive", "amqp", 10_000),
    Case("received", "boto3", "boto3_receive", "sqs", 200),
]


class Figures(NamedTuple):
    """What a round gave."""

    rate: float
    cpu_us: float


def measured(case: Case, urls: dict[str, str], client: leveret.RemoteBroker) -> Figures:
    """Run one client; the queue is empty before, or has what it is to receive."""
    queue = client.queue(QUEUE)
    queue.purge()
    count = case.messages // 10 if QUICK else case.messages
    if case.kind == "received":
        queue.send_many([BODY] * count)
    words = [sys.executable, "-m", "bench.client_child", case.function, str(count), urls[case.protocol]]
    span = json.loads(subprocess.run(words, check=True, stdout=subprocess.PIPE).stdout)
    return Figures(count / span["seconds"], span["cpu_seconds"] / count * 1e6)


def main() -> None:
    chosen = [case for case in CASES if all(word in " ".join(case[:3]) for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        ports = {name: free_port() for name in ("amqp", "http", "sqs")}
        flags = [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
        stack.enter_context(process([*LEVERET, "serve", "--data", str(Path(folder)), *flags], ports["sqs"]))
        add = ["keys", "add", "guest", "--id", KEY, "--secret", SECRET, "--data", folder]
        subprocess.run([*LEVERET, *add], check=True, stdout=subprocess.DEVNULL)
        urls = {name: f"{name}://guest:guest@127.0.0.1:{port}" for name, port in ports.items()}
        urls["sqs"] = f"http://{KEY}:{SECRET}@127.0.0.1:{ports['sqs']}"
        client = stack.enter_context(leveret.connect(urls["amqp"]))
        found: dict[Case, list[Figures]] = defaultdict(list)
        for number in range(ROUNDS):
            for case in chosen:
                progress(f"{case.kind}: {case.client}, round {number + 1} of {ROUNDS}")
                found[case].append(measured(case, urls, client))
    rates = {}
    for case, rounds in found.items():
        rate, cpu_us = (statistics.median(column) for column in zip(*rounds, strict=True))
        rates[case.kind, case.client] = rate
        report("client", kind=case.kind, client=case.client, messages_per_s=round(rate), cpu_us=round(cpu_us, 1))
    if len(chosen) == len(CASES):
        ours = rates["in flight", "leveret amqp, asyncio"]
        report(
            "client_times",
            pika_one_by_one=round(ours / rates["one by one", "pika"], 1),
            aio_pika_one_by_one=round(ours / rates["one by one", "aio-pika"], 1),
            aio_pika_in_flight=round(ours / rates["in flight", "aio-pika"], 1),
        )


if __name__ == "__main__":
    main()
