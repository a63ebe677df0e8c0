"""Consumers of streams on a node: they go on behind what they were given when the shard has another owner."""

from collections.abc import Iterator
from typing import Any

import pytest

from leveret.cluster.proxy.shard_channel import Reading, place_of
from leveret.core.properties import Properties, content
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import Client

SECOND_US = 1_000_000


@pytest.fixture
def world() -> Iterator[FrontWorld]:
    made = FrontWorld()
    yield made
    made.close()


@pytest.fixture
def client(world: FrontWorld) -> Client:
    return world.client()


def declare(client: Client, partitions: int) -> None:
    arguments = {"x-queue-type": "stream", "x-partitions": partitions}
    client.call(QueueDeclare("s", durable=True, arguments=arguments), QueueDeclareOk)


def publish(client: Client, numbers: range) -> None:
    for number in numbers:
        headers = {"x-partition-key": str(number)}
        client.send_content(BasicPublish("", "s"), Properties(headers=headers, message_id="m"), b"%d" % number)


def consume(client: Client, prefetch: int = 100, **arguments: Any) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.call(BasicQos(prefetch_count=prefetch), BasicQosOk)
    client.call(BasicConsume("s", "c", arguments=named), BasicConsumeOk)


def numbers(client: Client) -> list[int]:
    """What was delivered until now, in its order."""
    return [int(each.body) for each in client.received() if isinstance(each.method, BasicDeliver)]


def fail_over(world: FrontWorld) -> None:
    for shard_connection, proxied in list(world.proxied_clients.items()):
        if shard_connection.attached:
            proxied.abort()
    world.work()
    world.reattach()


@pytest.mark.parametrize("partitions", [1, 3])
def test_nothing_comes_twice_and_nothing_is_left_out(world: FrontWorld, client: Client, partitions: int) -> None:
    declare(client, partitions)
    publish(client, range(20))
    consume(client, prefetch=7, x_stream_offset="first")
    found = numbers(client)
    assert len(found) == 7
    for _ in range(3):
        fail_over(world)
        found += numbers(client)
    assert sorted(found) == list(range(20))


def test_a_chosen_partition_stays_chosen(world: FrontWorld, client: Client) -> None:
    declare(client, 3)
    publish(client, range(60))
    consume(client, prefetch=5, x_stream_offset=2, x_stream_partition=1)
    found = numbers(client)
    for _ in range(10):
        fail_over(world)
        found += numbers(client)
    consumer = world.client()
    consume(consumer, x_stream_partition=1, x_stream_offset=2)
    assert found == numbers(consumer)


def test_what_came_while_nobody_owned_the_shard_is_delivered(world: FrontWorld, client: Client) -> None:
    declare(client, 1)
    publish(client, range(3))
    world.pass_ms(60_000)
    consume(client)
    for proxied in list(world.proxied_clients.values()):
        proxied.abort()
    world.work()
    shard = world.worlds[world.shard_id_of("/", "s")]
    with shard.hub.locked() as core:
        core.publish([core.topology.vhosts["/"].queues["s"]], b"\0\1s", *content(Properties(), b"3"))
    assert numbers(client) == []
    world.reattach()
    assert numbers(client) == [3]


@pytest.mark.parametrize("asked", [{}, {"x-stream-offset": "next"}, {"x-stream-offset": "last"}])
def test_what_was_newest_is_found_by_its_age(asked: dict[str, str]) -> None:
    ticks = [7 * SECOND_US]
    reading = Reading(asked, 2, lambda: ticks[0])
    ticks[0] += 5 * SECOND_US // 2
    assert reading.arguments() == {**asked, "x-stream-offsets": ["3s", "3s"]}
    reading.delivered(header_of(5, 1))
    assert reading.arguments() == {**asked, "x-stream-offsets": ["3s", 6]}


def test_a_place_in_each_partition_is_kept_until_something_came_from_there() -> None:
    reading = Reading({"x-stream-offsets": [3, "first", "1h"]}, 3)
    reading.delivered(header_of(9, 1))
    assert reading.arguments() == {"x-stream-offsets": [3, 10, "1h"]}


def header_of(offset: int, partition: int | None, **properties: Any) -> bytes:
    """The header of a delivery."""
    wire, header_len = content(Properties(headers={"mine": 1}, **properties), b"")
    entries = b"\x0fx-stream-offsetl" + offset.to_bytes(8, "big")
    if partition is not None:
        entries += b"\x12x-stream-partitionl" + partition.to_bytes(8, "big")
    mine = wire.index(b"\4mine")
    end = mine + int.from_bytes(wire[mine - 4 : mine], "big")
    size = (end - mine + len(entries)).to_bytes(4, "big")
    return wire[: mine - 4] + size + wire[mine:end] + entries + wire[end:header_len]


@pytest.mark.parametrize("properties", [{}, {"content_type": "a/b", "content_encoding": "c", "message_id": "m"}])
@pytest.mark.parametrize("partition", [None, 7])
def test_the_place_of_a_delivery_is_at_the_end_of_its_headers(
    partition: int | None, properties: dict[str, str]
) -> None:
    assert place_of(header_of(5, partition, **properties)) == (partition or 0, 5)


@pytest.mark.parametrize("properties", [{}, {"headers": {"a": 1}}, {"message_id": "\x0fx-stream-offsetl12345678"}])
def test_a_header_without_a_place_says_nothing(properties: dict[str, Any]) -> None:
    wire, header_len = content(Properties(**properties), b"")
    assert place_of(wire[:header_len]) is None
