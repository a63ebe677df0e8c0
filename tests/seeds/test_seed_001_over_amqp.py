"""The low-level design as an AMQP client sees it: routing, who gets a message, priorities, what a dead letter tells."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    BasicReject,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
)
from tests.protocols.amqp.client import Client, Received, World


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.close()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


def bound(client: Client, exchange: str, queue: str, key: str = "", arguments: dict[str, Any] | None = None) -> None:
    client.queue(queue)
    client.call(QueueBind(queue, exchange, key, arguments=arguments or {}), QueueBindOk)


def reached(world: World) -> set[str]:
    """The queues that hold something."""
    return {name for name, queue in world.core.topology.vhost("/").queues.items() if queue.depth}


def get(client: Client, queue: str) -> Received:
    client.send(BasicGet(queue, no_ack=True))
    return client.next_content(BasicGetOk)


def bodies(client: Client) -> list[bytes]:
    return [each.body for each in client.received() if isinstance(each.method, BasicDeliver)]


# Routing


def test_direct(world: World, client: Client) -> None:
    for queue, key in (("a", "k"), ("b", "k"), ("c", "other")):
        bound(client, "amq.direct", queue, key)
    client.publish("k", exchange="amq.direct")
    assert reached(world) == {"a", "b"}


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("order.us.created", True),
        ("order.*.created", True),
        ("order.#", True),
        ("#.created", True),
        ("order.eu.created", False),
        ("order.*", False),
    ],
)
def test_topic(world: World, client: Client, pattern: str, matches: bool) -> None:
    bound(client, "amq.topic", "q", pattern)
    client.publish("order.us.created", exchange="amq.topic")
    assert reached(world) == ({"q"} if matches else set())


@pytest.mark.parametrize(
    ("arguments", "headers", "matches"),
    [
        ({"x-match": "all", "format": "pdf", "type": "report"}, {"format": "pdf", "type": "report", "more": 1}, True),
        ({"x-match": "all", "format": "pdf", "type": "report"}, {"format": "pdf"}, False),
        ({"x-match": "any", "format": "pdf", "type": "report"}, {"format": "pdf", "type": "log"}, True),
        ({"x-match": "any", "format": "pdf", "type": "report"}, {"format": "zip"}, False),
        ({"format": "pdf"}, {"format": "zip"}, False),
    ],
)
def test_headers(
    world: World, client: Client, arguments: dict[str, Any], headers: dict[str, Any], matches: bool
) -> None:
    bound(client, "amq.headers", "q", arguments=arguments)
    client.publish("any", exchange="amq.headers", headers=headers)
    assert reached(world) == ({"q"} if matches else set())


def test_headers_without_any(world: World, client: Client) -> None:
    bound(client, "amq.headers", "q", arguments={"x-match": "any", "a": 1})
    client.publish("any", exchange="amq.headers")
    assert reached(world) == set()


def test_fanout(world: World, client: Client) -> None:
    bound(client, "amq.fanout", "a", "x")
    bound(client, "amq.fanout", "b", "y")
    client.publish("z", exchange="amq.fanout")
    assert reached(world) == {"a", "b"}


# Who gets it


def consumers(world: World, *priorities: int, prefetch: int = 1, no_ack: bool = False) -> list[Client]:
    """Clients that consume from q."""
    world.client().queue("q")
    made = [world.client() for _ in priorities]
    for client, priority in zip(made, priorities, strict=True):
        client.call(BasicQos(0, prefetch, False), BasicQosOk)
        client.call(BasicConsume("q", no_ack=no_ack, arguments={"x-priority": priority}), BasicConsumeOk)
    return made


def test_consumers_take_turns_up_to_their_prefetch(world: World, client: Client) -> None:
    first, second = consumers(world, 0, 0, prefetch=2)
    for body in (b"1", b"2", b"3", b"4", b"5"):
        client.publish(body=body)
    assert (bodies(first), bodies(second)) == ([b"1", b"3"], [b"2", b"4"])
    second.send(BasicAck(1))
    assert (bodies(first), bodies(second)) == ([], [b"5"])


def test_a_higher_priority_is_served_until_it_is_full(world: World, client: Client) -> None:
    low, high = consumers(world, -128, 127, prefetch=2)
    for body in (b"1", b"2", b"3"):
        client.publish(body=body)
    assert (bodies(low), bodies(high)) == ([b"3"], [b"1", b"2"])


def test_prefetch_does_not_limit_who_does_not_acknowledge(world: World, client: Client) -> None:
    (only,) = consumers(world, 0, no_ack=True)
    for body in (b"1", b"2", b"3"):
        client.publish(body=body)
    assert bodies(only) == [b"1", b"2", b"3"]


def test_priorities_of_messages(client: Client) -> None:
    client.queue(arguments={"x-max-priority": 5})
    for body, priority in ((b"low", 1), (b"none", None), (b"high", 5), (b"clamped", 200), (b"high too", 5)):
        client.publish(body=body, priority=priority)
    order = [get(client, "q").body for _ in range(5)]
    assert order == [b"high", b"clamped", b"high too", b"low", b"none"]


# Dead letters


@pytest.fixture
def dying(client: Client) -> Client:
    """Queue q sends its dead through exchange dlx to queue dead."""
    client.call(ExchangeDeclare("dlx", "fanout"), ExchangeDeclareOk)
    bound(client, "dlx", "dead")
    client.queue("q", arguments={"x-dead-letter-exchange": "dlx", "x-max-length": 2})
    return client


def death(client: Client) -> tuple[Received, dict[str, Any]]:
    """The dead letter, and its only death."""
    letter = get(client, "dead")
    assert letter.properties is not None
    assert letter.properties.headers is not None
    (only,) = letter.properties.headers["x-death"]
    return letter, only


def test_a_rejected_message_tells_where_it_came_from(world: World, dying: Client) -> None:
    dying.publish("q", b"bad", headers={"mine": 1}, correlation_id="c")
    dying.send(BasicGet("q"))
    dying.send(BasicReject(dying.next(BasicGetOk).delivery_tag, requeue=False))
    letter, told = death(dying)
    assert told == {
        "count": 1,
        "reason": "rejected",
        "queue": "q",
        "time": datetime.fromtimestamp(world.clock.now_ms() // 1000, UTC),
        "exchange": "",
        "routing-keys": ["q"],
    }
    assert letter.method == BasicGetOk(2, False, "dlx", "q", 0)
    assert letter.body == b"bad"
    assert letter.properties is not None
    assert letter.properties.correlation_id == "c"
    headers = letter.properties.headers or {}
    assert (headers["mine"], headers["x-first-death-queue"], headers["x-last-death-reason"]) == (1, "q", "rejected")


def test_an_expired_message_keeps_its_expiration_in_the_death(world: World, dying: Client) -> None:
    dying.publish("q", expiration="100")
    world.pass_ms(101)
    letter, told = death(dying)
    assert (told["reason"], told["original-expiration"]) == ("expired", "100")
    assert letter.properties is not None
    assert letter.properties.expiration is None


def test_the_oldest_goes_when_the_queue_is_too_long(dying: Client) -> None:
    for body in (b"1", b"2", b"3"):
        dying.publish("q", body)
    letter, told = death(dying)
    assert (letter.body, told["reason"]) == (b"1", "maxlen")


def test_one_delivery_too_many(client: Client) -> None:
    client.call(ExchangeDeclare("dlx", "fanout"), ExchangeDeclareOk)
    bound(client, "dlx", "dead")
    arguments = {"x-queue-type": "quorum", "x-delivery-limit": 1, "x-dead-letter-exchange": "dlx"}
    client.queue("q", durable=True, arguments=arguments)
    client.publish("q")
    for count in (None, 1):
        client.send(BasicGet("q"))
        came = client.next_content(BasicGetOk)
        headers = came.properties.headers if came.properties else None
        assert (headers or {}).get("x-delivery-count") == count
        client.send(BasicReject(came.method.delivery_tag, requeue=True))
    assert death(client)[1]["reason"] == "delivery_limit"


def test_a_second_death_of_the_same_kind_is_counted(world: World, client: Client) -> None:
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    client.queue("q", arguments=arguments)
    client.publish("q")
    for _ in range(3):
        client.send(BasicGet("q"))
        client.send(BasicReject(client.next(BasicGetOk).delivery_tag, requeue=False))
    letter = get(client, "q")
    assert letter.properties is not None
    (told,) = (letter.properties.headers or {})["x-death"]
    assert told["count"] == 3
