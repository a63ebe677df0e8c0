"""Clients that mean well, one of each protocol: what each of their operations took.

`python -m tests.attack.clients SECONDS AMQP HTTP SQS` prints one object of JSON: by protocol, the
latencies in milliseconds and the failures.
"""

import http.client
import json
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import pika
from botocore.config import Config

from tests.attack.floods import Ports

PAUSE_S = 0.02
TIMEOUT_S = 30.0
AUTHORIZATION = {"Authorization": "Basic " + b64encode(b"guest:guest").decode(), "Content-Type": "application/json"}

Operation = Callable[[], None]
Client = Callable[[Ports], AbstractContextManager[Operation]]


@dataclass
class Notes:
    """What one client has seen."""

    latencies_ms: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@contextmanager
def amqp(ports: Ports) -> Iterator[Operation]:
    """Publish with a confirm, then get."""
    connection = pika.BlockingConnection(parameters(ports))
    channel = connection.channel()
    channel.queue_declare("attack.amqp", durable=True)
    channel.confirm_delivery()

    def operation() -> None:
        channel.basic_publish("", "attack.amqp", b"x", pika.BasicProperties(delivery_mode=2))
        method, _, _ = channel.basic_get("attack.amqp", auto_ack=True)
        assert method is not None, "the message is not there"

    yield operation
    connection.close()


@contextmanager
def amqp_login(ports: Ports) -> Iterator[Operation]:
    """Connect, log in and leave."""
    yield lambda: pika.BlockingConnection(parameters(ports)).close()


def parameters(ports: Ports) -> Any:
    """How to connect over AMQP."""
    return pika.ConnectionParameters("127.0.0.1", ports.amqp, socket_timeout=TIMEOUT_S, stack_timeout=TIMEOUT_S)


@contextmanager
def rest(ports: Ports) -> Iterator[Operation]:
    """Enqueue, dequeue and acknowledge over one connection."""
    connection = http.client.HTTPConnection("127.0.0.1", ports.http, timeout=TIMEOUT_S)

    def ask(method: str, path: str, given: object) -> Any:
        connection.request(method, path, json.dumps(given), AUTHORIZATION)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status < 300, f"{answer.status} {body[:200]!r}"
        return json.loads(body) if body else None

    def operation() -> None:
        ask("POST", "/queues/attack.rest/messages", {"payload": "x"})
        (taken,) = ask("POST", "/queues/attack.rest/dequeue", {"max_messages": 1})["messages"]
        path = f"/queues/attack.rest/messages/{taken['message_id']}"
        ask("DELETE", path, {"receipt_handle": taken["receipt_handle"]})

    ask("PUT", "/queues/attack.rest", {})
    yield operation
    connection.close()


@contextmanager
def health(ports: Ports) -> Iterator[Operation]:
    """Ask after the health, by a new connection as supervisors do."""

    def operation() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", ports.http, timeout=TIMEOUT_S)
        connection.request("GET", "/health/live")
        answer = connection.getresponse()
        assert answer.status == 200, answer.status
        answer.read()
        connection.close()

    yield operation


@contextmanager
def sqs(ports: Ports) -> Iterator[Operation]:
    """Send, receive and delete with boto3; its access key comes by the environment."""
    config = Config(retries={"total_max_attempts": 1}, read_timeout=TIMEOUT_S, connect_timeout=TIMEOUT_S)
    endpoint = f"http://127.0.0.1:{ports.sqs}"
    service = boto3.client("sqs", endpoint_url=endpoint, region_name="us-east-1", config=config)
    url = service.create_queue(QueueName="attack-sqs")["QueueUrl"]

    def operation() -> None:
        service.send_message(QueueUrl=url, MessageBody="x")
        (taken,) = service.receive_message(QueueUrl=url)["Messages"]
        service.delete_message(QueueUrl=url, ReceiptHandle=taken["ReceiptHandle"])

    yield operation
    service.close()


KINDS: dict[str, Client] = {
    "amqp": amqp,
    "amqp login": amqp_login,
    "rest": rest,
    "sqs": sqs,
    "health": health,
}


def measure(client: Client, ports: Ports, begin: threading.Barrier, seconds: float, to: Notes) -> None:
    """Do the operation of a client again and again; after a failure, as a new client."""
    first, end_s = True, float("inf")
    while time.monotonic() < end_s:
        started = time.perf_counter()
        try:
            with client(ports) as operation:
                operation()
                if first:
                    begin.wait()
                    first, end_s = False, time.monotonic() + seconds
                while time.monotonic() < end_s:
                    started = time.perf_counter()
                    operation()
                    to.latencies_ms.append((time.perf_counter() - started) * 1_000)
                    time.sleep(PAUSE_S)
        except Exception as error:  # whatever it is, this client was not served
            if first:
                begin.abort()
                raise
            to.latencies_ms.append((time.perf_counter() - started) * 1_000)
            to.failures.append(f"{type(error).__name__}: {error}")
            time.sleep(PAUSE_S)


def main() -> None:
    """Warm up, say so, wait for a line on standard input, measure, and print what was seen."""
    seconds, ports = float(sys.argv[1]), Ports(*map(int, sys.argv[2:5]))
    notes = {name: Notes() for name in KINDS}
    begin = threading.Barrier(len(KINDS) + 1)
    threads = [
        threading.Thread(target=measure, args=(client, ports, begin, seconds, notes[name]))
        for name, client in KINDS.items()
    ]
    for thread in threads:
        thread.start()

    def warm() -> bool:
        return begin.n_waiting == len(KINDS) or begin.broken

    while not warm():
        time.sleep(PAUSE_S)
    print("warm", flush=True)
    sys.stdin.readline()
    begin.wait()
    for thread in threads:
        thread.join()
    print(json.dumps({name: note.__dict__ for name, note in notes.items()}), flush=True)


if __name__ == "__main__":
    main()
