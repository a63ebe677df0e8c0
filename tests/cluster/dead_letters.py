"""Queues whose messages die, and where they go: another shard."""

import time
from collections.abc import Callable
from typing import Any

from leveret.cluster.transfer.destination_sender import PAUSE_MAX_MS
from leveret.wire.methods import (
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicReject,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.cluster.proxy_world import FrontWorld, place
from tests.protocols.amqp.client import Client, Received
from tests.waiting import PATIENCE_S

SOURCE_SHARD, GRAVE_SHARD = "0", "1"


def name_of(shard: str, prefix: str) -> str:
    """The name of a queue that gets into a shard."""
    return next(name for name in (f"{prefix}{i}" for i in range(100)) if place(name) == shard)


SOURCE, GRAVE = name_of(SOURCE_SHARD, "source"), name_of(GRAVE_SHARD, "grave")


def mourner(world: FrontWorld) -> Client:
    """A client with an exchange for dead letters that leads to another shard."""
    client = world.client()
    client.call(QueueDeclare(GRAVE, durable=True), QueueDeclareOk)
    client.call(QueueBind(GRAVE, "amq.direct", "dead"), QueueBindOk)
    return client


def declare(client: Client, name: str = SOURCE, key: str | None = "dead", **arguments: Any) -> None:
    """A queue whose dead letters go through the exchange."""
    told = {
        "x-dead-letter-exchange": "amq.direct",
        **{f"x-{each.replace('_', '-')}": arguments[each] for each in arguments},
    }
    if key is not None:
        told["x-dead-letter-routing-key"] = key
    client.call(QueueDeclare(name, durable=True, arguments=told), QueueDeclareOk)


def reject(client: Client, queue: str = SOURCE) -> None:
    """Take a message and never want it again."""
    client.send(BasicGet(queue))
    client.send(BasicReject(client.next_content(BasicGetOk).method.delivery_tag, requeue=False))


def take(client: Client, queue: str = GRAVE) -> Received:
    """The next message of a queue."""
    client.send(BasicGet(queue, no_ack=True))
    return client.next_content(BasicGetOk)


def is_empty(client: Client, queue: str = GRAVE) -> bool:
    client.send(BasicGet(queue, no_ack=True))
    return isinstance(client.next(BasicGetEmpty), BasicGetEmpty)


def waiting(world: FrontWorld) -> int:
    """What is in the outbox, sent or not."""
    return world.outboxes[SOURCE_SHARD].depth


def retry(world: FrontWorld) -> None:
    """As much time passes as an outbox waits."""
    world.pass_ms(PAUSE_MAX_MS)
    world.outboxes[SOURCE_SHARD].retry()
    world.work()


def die_rejected(world: FrontWorld, client: Client) -> None:
    declare(client)
    client.publish(SOURCE, body=b"dear")
    reject(client)


def consume(connection: Any, until: Callable[[], bool]) -> None:
    """Let consumers work until something holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, "it never did"
        connection.process_data_events(0.1)
