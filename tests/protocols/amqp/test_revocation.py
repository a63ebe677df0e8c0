"""Permissions that are taken away: consumers stop at once, and connections of users that are gone are closed."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leveret.security.passwords import hash_password
from leveret.wire import methods as m
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import CAPABILITIES, CHEAP, Client, World

STREAM = {"x-queue-type": "stream"}
SILENT = {**CAPABILITIES, "consumer_cancel_notify": False}
Change = Callable[[Any], object]

NARROWED: Change = lambda access: access.set_permission("ann", "/", ".*", ".*", "^(other|$)")  # noqa: E731
CLEARED: Change = lambda access: access.clear_permission("ann", "/")  # noqa: E731
DELETED: Change = lambda access: access.delete_user("ann")  # noqa: E731


@pytest.fixture(params=[World, FrontWorld], ids=["single server", "cluster"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A single server, and a node of a cluster."""
    made: World = request.param()
    with made.broker.runtime:
        for user in ("ann", "bob"):
            made.access.add_user(user, hash_password("secret", CHEAP))
            made.access.set_permission(user, "/", ".*", ".*", ".*")
    yield made
    made.close()


def consuming(world: World, user: str = "ann", arguments: dict[str, Any] | None = None, **login: Any) -> Client:
    """A client that consumes q without acknowledgements, or a stream with them."""
    client = world.client(user=user, password="secret", **login)
    client.queue("q", durable=True, arguments=arguments or {})
    if arguments:
        client.call(m.BasicQos(prefetch_count=10), m.BasicQosOk)
    client.call(m.BasicConsume("q", "c", no_ack=not arguments), m.BasicConsumeOk)
    return client


def change(world: World, verb: Change) -> None:
    """Change what users may do, as an operator does."""
    with world.broker.runtime:
        verb(world.access)
    world.work()


def told(client: Client) -> list[m.Method]:
    """What came since the last time."""
    return [each.method for each in client.received()]


@pytest.mark.parametrize("arguments", [None, STREAM], ids=["queue", "stream"])
def test_a_consumer_is_cancelled_when_its_queue_may_not_be_read(world: World, arguments: dict[str, Any] | None) -> None:
    client, publisher = consuming(world, arguments=arguments), world.client()
    publisher.publish("q", b"before")
    assert client.next_content(m.BasicDeliver).body == b"before"
    change(world, NARROWED)
    assert told(client) == [m.BasicCancel("c", nowait=True)]
    publisher.publish("q", b"after")
    world.work()
    assert client.nothing()
    # The channel goes on, and the same consumer is refused now.
    assert isinstance(client.call(m.QueueDeclare("other"), m.QueueDeclareOk), m.QueueDeclareOk)
    assert client.call(m.BasicConsume("q", "c"), m.ChannelClose).reply_code == 403


def test_the_channel_of_a_client_that_knows_no_cancel_is_closed(world: World) -> None:
    client, publisher = consuming(world, capabilities=SILENT), world.client()
    change(world, NARROWED)
    (close,) = told(client)
    assert isinstance(close, m.ChannelClose)
    assert (close.reply_code, close.class_id, close.method_id) == (403, 60, 20)
    assert "read access to queue 'q' in vhost '/' refused for user 'ann'" in close.reply_text
    publisher.publish("q", b"after")
    world.work()
    assert client.nothing()


def test_what_a_cancelled_consumer_holds_can_be_settled(world: World) -> None:
    client, publisher = world.client(user="ann", password="secret"), world.client()
    client.queue("q")
    client.call(m.BasicConsume("q", "c"), m.BasicConsumeOk)
    publisher.publish("q", b"held")
    tag = client.next(m.BasicDeliver).delivery_tag
    change(world, NARROWED)
    assert told(client) == [m.BasicCancel("c", nowait=True)]
    client.send(m.BasicNack(tag, requeue=True))
    world.work()
    assert client.nothing()
    assert publisher.call(m.BasicGet("q", no_ack=True), m.BasicGetOk).redelivered


def test_others_are_left_alone(world: World) -> None:
    ann, bob, publisher = consuming(world), world.client(user="bob", password="secret"), world.client()
    bob.queue("other")
    bob.call(m.BasicConsume("other", "b", no_ack=True), m.BasicConsumeOk)
    ann.call(m.BasicConsume("other", "d", no_ack=True), m.BasicConsumeOk) if False else None
    for verb in (NARROWED, CLEARED, DELETED):
        change(world, verb)
    publisher.publish("other", b"x")
    world.work()
    assert bob.next_content(m.BasicDeliver).body == b"x"


def test_a_consumer_that_may_go_on_does(world: World) -> None:
    client, publisher = consuming(world), world.client()
    client.queue("other")
    client.call(m.BasicConsume("other", "d", no_ack=True), m.BasicConsumeOk)
    change(world, NARROWED)
    assert told(client) == [m.BasicCancel("c", nowait=True)]
    publisher.publish("other", b"x")
    world.work()
    assert client.next_content(m.BasicDeliver).method.consumer_tag == "d"


@pytest.mark.parametrize(
    ("verb", "code", "text"),
    [
        (CLEARED, 530, "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"),
        (DELETED, 320, "CONNECTION_FORCED - user 'ann' is deleted"),
    ],
    ids=["permissions cleared", "user deleted"],
)
def test_a_connection_ends_with_the_right_to_be_there(world: World, verb: Change, code: int, text: str) -> None:
    client, publisher = consuming(world), world.client()
    change(world, verb)
    close = told(client)[-1]
    assert isinstance(close, m.ConnectionClose)
    assert (close.reply_code, close.reply_text) == (code, text)
    publisher.publish("q", b"after")
    world.work()
    assert client.nothing()
    assert publisher.call(m.BasicGet("q", no_ack=True), m.BasicGetOk).message_count == 0


def test_a_permission_that_is_set_again_as_it_was_changes_nothing(world: World) -> None:
    client, publisher = consuming(world), world.client()
    change(world, lambda access: access.set_permission("ann", "/", ".*", ".*", ".*"))
    publisher.publish("q", b"x")
    world.work()
    assert client.next_content(m.BasicDeliver).body == b"x"
