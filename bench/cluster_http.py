"""SQS and REST at the node that has a queue, and at another one, over 32 connections."""

import json
import subprocess
import sys
from collections.abc import Callable
from itertools import repeat

import uvloop

from bench.bench_http import drive
from bench.bench_rest import PAYLOAD, Requests
from bench.bench_sqs import Side
from bench.measure import cpu_seconds, report
from bench.sqs_client import KEY, SECRET
from tests.cluster.processes import Nodes

LEVERET = [sys.executable, "-m", "leveret"]
REST_QUEUE = "orders"
SQS_QUEUE = "bench"  # that of bench_sqs.py


def operate(nodes: Nodes, node: str, *command: str) -> bytes:
    """Give a command to a node, which all will know of."""
    done = subprocess.run([*LEVERET, *command, "--data", nodes.data(node)], capture_output=True, check=True)
    return done.stdout


def pids(nodes: Nodes) -> list[int]:
    """The processes of all nodes: what a request costs at another node is the work of two."""
    return [nodes.pid(name) for name in nodes.names]


def measure_sqs(nodes: Nodes, paths: dict[str, str], requests: int) -> None:
    """Send, receive and delete one message in each request."""
    operate(nodes, nodes.names[0], "keys", "add", "guest", "--id", KEY, "--secret", SECRET)
    for path, node in paths.items():
        Side(f"node_{path}", nodes.ports(node)["sqs"], pids(nodes), requests).run()


def repeated(request: bytes, times: int) -> Callable[[bytes], bytes | None]:
    """The same request a number of times."""
    left = repeat(request, times)
    return lambda _: next(left, None)


def measure_rest(nodes: Nodes, paths: dict[str, str], requests: int) -> None:
    """Send and take one message in each request."""
    token = json.loads(operate(nodes, nodes.names[0], "tokens", "add", "guest", "*:*", "--json"))["token"]
    for path, node in paths.items():
        running = Requests(nodes.ports(node)["http"], token)
        send = running.request(f"POST /queues/{REST_QUEUE}/messages", {"payload": PAYLOAD})
        take = running.request(f"POST /queues/{REST_QUEUE}/dequeue", {"max_messages": 1})
        for name, request in {"enqueue": send, "dequeue": take}.items():
            before = cpu_seconds(pids(nodes))
            seconds = uvloop.run(drive(running.port, repeated(request, requests)))
            cpu_us = (cpu_seconds(pids(nodes)) - before) / requests * 1e6
            report(f"rest_node_{path}_{name}", requests_per_s=round(requests / seconds), cpu_us=round(cpu_us, 1))
