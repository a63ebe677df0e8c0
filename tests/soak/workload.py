"""The clients of a soak: each round connects, creates a queue, sends, receives, deletes it all and disconnects.

Queue names never repeat, and body sizes vary: a server that keeps anything of a deleted queue, a settled message or a
closed connection grows.
"""

import http.client
import json
import random
import threading
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import pika
from botocore.config import Config

MESSAGES = 10  # of each round
BODY_BYTES = (10, 200, 2_000, 20_000, 200_000)
BODY_WEIGHTS = (8, 8, 4, 2, 1)
CROWD_CONNECTIONS = 100
CROWD_CHANNELS = 5
TIMEOUT_S = 60.0
JSON_HEADERS = {"Authorization": "Basic " + b64encode(b"guest:guest").decode(), "Content-Type": "application/json"}


@dataclass(frozen=True)
class Target:
    """The server under test."""

    amqp: int
    http: int
    sqs: int


@dataclass
class Work:
    """One kind of client: its target, its randomness, and what it did and met."""

    target: Target
    chance: random.Random
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def body(self) -> str:
        """A body of one of the sizes; small ones are frequent."""
        (size,) = self.chance.choices(BODY_BYTES, BODY_WEIGHTS)
        return "x" * self.chance.randrange(size // 2, size)

    def name(self, kind: str) -> str:
        """A queue name that no earlier round used."""
        return f"soak-{kind}-{self.chance.getrandbits(64):016x}"


Round = Callable[[Work], None]


def sqs_rounds() -> Round:
    """SQS by boto3: one client object, a new connection each round."""
    service: Any = None

    def run(work: Work) -> None:
        nonlocal service
        if service is None:
            endpoint = f"http://127.0.0.1:{work.target.sqs}"
            config = Config(retries={"total_max_attempts": 1}, read_timeout=TIMEOUT_S)
            keys = {"aws_access_key_id": "any", "aws_secret_access_key": "any"}
            service = boto3.client("sqs", endpoint_url=endpoint, region_name="us-east-1", config=config, **keys)
        fifo = work.chance.random() < 0.25
        name = work.name("sqs") + (".fifo" if fifo else "")
        attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"} if fifo else {}
        url = service.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        for number in range(MESSAGES):
            group = {"MessageGroupId": f"group-{number}"} if fifo else {}
            tag = {"number": {"DataType": "Number", "StringValue": str(number)}}
            service.send_message(QueueUrl=url, MessageBody=f"{number}{work.body()}", MessageAttributes=tag, **group)
            (taken,) = service.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
            service.delete_message(QueueUrl=url, ReceiptHandle=taken["ReceiptHandle"])
        service.delete_queue(QueueUrl=url)
        service.close()
        work.counts.update(queues=1, connections=1, messages=MESSAGES)

    return run


@contextmanager
def rest_caller(target: Target) -> Iterator[Callable[[str, str, object], Any]]:
    """One connection to the REST API."""
    connection = http.client.HTTPConnection("127.0.0.1", target.http, timeout=TIMEOUT_S)

    def call(method: str, path: str, given: object) -> Any:
        connection.request(method, path, None if given is None else json.dumps(given), JSON_HEADERS)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status < 300, f"{method} {path}: {answer.status} {body[:200]!r}"
        return json.loads(body) if body else None

    yield call
    connection.close()


def rest_round(work: Work) -> None:
    """REST by http.client; the statistics of the queue as well."""
    path = f"/queues/{work.name('rest')}"
    with rest_caller(work.target) as call:
        call("PUT", path, {})
        for _ in range(MESSAGES):
            call("POST", f"{path}/messages", {"payload": work.body()})
            (taken,) = call("POST", f"{path}/dequeue", {"max_messages": 1})["messages"]
            call("DELETE", f"{path}/messages/{taken['message_id']}", {"receipt_handle": taken["receipt_handle"]})
        call("GET", path, None)
        call("DELETE", path, None)
    work.counts.update(queues=1, connections=1, messages=MESSAGES)


def amqp_connection(target: Target) -> Any:
    """A connection by pika."""
    return pika.BlockingConnection(
        pika.ConnectionParameters("127.0.0.1", target.amqp, socket_timeout=TIMEOUT_S, stack_timeout=TIMEOUT_S)
    )


def amqp_round(work: Work) -> None:
    """AMQP by pika: an exchange, a queue, confirmed publishes, a consumer."""
    connection = amqp_connection(work.target)
    channel = connection.channel()
    name = work.name("amqp")
    channel.exchange_declare(name, "topic")
    channel.queue_declare(name, durable=True)
    channel.queue_bind(name, name, "key.#")
    channel.confirm_delivery()
    for number in range(MESSAGES):
        properties = pika.BasicProperties(delivery_mode=2, headers={"number": number})
        channel.basic_publish(name, f"key.{number}", work.body().encode(), properties)
    for method, _, _ in channel.consume(name, inactivity_timeout=TIMEOUT_S):
        assert method is not None, "a confirmed message was not delivered"
        channel.basic_ack(method.delivery_tag)
        if method.delivery_tag == MESSAGES:
            break
    channel.cancel()
    channel.queue_delete(name)
    channel.exchange_delete(name)
    connection.close()
    work.counts.update(queues=1, connections=1, messages=MESSAGES)


def crowd_round(work: Work) -> None:
    """Many AMQP connections that are open at once, each with channels and a queue of its own."""
    crowd = []
    for _ in range(CROWD_CONNECTIONS):
        connection = amqp_connection(work.target)
        for _ in range(CROWD_CHANNELS):
            channel = connection.channel()
        queue = channel.queue_declare("", exclusive=True).method.queue
        channel.basic_publish("", queue, work.body().encode())
        channel.basic_consume(queue, lambda *_: None, auto_ack=True)
        crowd.append(connection)
    for connection in crowd:
        connection.close()
    work.counts.update(queues=CROWD_CONNECTIONS, connections=CROWD_CONNECTIONS, messages=CROWD_CONNECTIONS)


EVERY_S: dict[str, tuple[Callable[[], Round], float]] = {
    "sqs": (sqs_rounds, 1.0),
    "rest": (lambda: rest_round, 0.5),
    "amqp": (lambda: amqp_round, 0.5),
    "crowd": (lambda: crowd_round, 60.0),
}
"""The kinds of clients, each with the seconds from the beginning of one round to that of the next."""


class Client(threading.Thread):
    """Runs the rounds of one kind at their pace until it is stopped; a failed round is noted and the next one runs."""

    def __init__(self, kind: str, target: Target, seed: int, stop: threading.Event) -> None:
        """Not started yet."""
        super().__init__(name=kind, daemon=True)
        make_round, self._every_s = EVERY_S[kind]
        self._round = make_round()
        self._stop_event = stop
        self.work = Work(target, random.Random(f"{seed} {kind}"))

    def run(self) -> None:
        """Begin amid a pace, so that no sample meets a crowd. A round that takes longer delays the next one."""
        self._stop_event.wait(self._every_s / 2)
        while not self._stop_event.is_set():
            started = time.monotonic()
            try:
                self._round(self.work)
            except Exception as error:  # a soak goes on: the failure makes its result bad
                self.work.failures.append(f"{self.name}: {type(error).__name__}: {error}")
            self.work.counts["rounds"] += 1
            self._stop_event.wait(max(0.0, started + self._every_s - time.monotonic()))
