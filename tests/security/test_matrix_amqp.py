"""The matrix of rights by AMQP: every method with rights that are just enough, and with those that must not be."""

from collections.abc import Iterator

import pytest

from leveret.core.properties import Properties
from leveret.security.passwords import hash_password
from leveret.wire import methods as m
from leveret.wire.methods import Method
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import CHEAP, Client, World
from tests.security.matrix import Ask, Case, cases

Request = tuple[Method, list[Ask]]
QUEUE, EVENTS = Ask("queue.delete", queue="orders"), Ask("exchange.delete", exchange="events")
DEAD, ALTERNATE = {"x-dead-letter-exchange": "other"}, {"alternate-exchange": "alternate"}
BINDING = Ask("queue.bind", True, queue="orders", exchange="events")
UNBINDING = Ask("queue.unbind", True, queue="orders", exchange="events")
REQUESTS: dict[str, Request] = {
    "exchange.declare": (m.ExchangeDeclare("events", "topic"), [Ask("exchange.declare", exchange="events")]),
    "exchange.declare alternate-exchange": (
        m.ExchangeDeclare("new", "topic", arguments=ALTERNATE),
        [Ask("exchange.declare", exchange="new", alternate_exchange="alternate")],
    ),
    "exchange.declare passive": (m.ExchangeDeclare("events", passive=True), [Ask("exchange.declare-passive")]),
    "exchange.delete": (m.ExchangeDelete("events"), [EVENTS]),
    "exchange.bind": (
        m.ExchangeBind("other", "events", "a.b"),
        [Ask("exchange.bind", True, source="events", destination="other")],
    ),
    "exchange.unbind": (
        m.ExchangeUnbind("other", "events", "a.b"),
        [Ask("exchange.unbind", True, source="events", destination="other")],
    ),
    "queue.declare": (m.QueueDeclare("orders"), [Ask("queue.declare", queue="orders")]),
    "queue.declare x-dead-letter-exchange": (
        m.QueueDeclare("new", arguments=DEAD),
        [Ask("queue.declare", queue="new", dead_letter_exchange="other")],
    ),
    "queue.declare passive": (m.QueueDeclare("orders", passive=True), [Ask("queue.declare-passive")]),
    "queue.delete": (m.QueueDelete("orders"), [QUEUE]),
    "queue.bind": (m.QueueBind("orders", "events", "a.b"), [BINDING]),
    "queue.unbind": (m.QueueUnbind("orders", "events", "a.b"), [UNBINDING]),
    "queue.purge": (m.QueuePurge("orders"), [Ask("queue.purge", queue="orders")]),
    "basic.publish": (m.BasicPublish("events", "a.b"), [Ask("basic.publish", True, exchange="events")]),
    "basic.publish CC": (m.BasicPublish("events", "a.b"), [Ask("basic.publish", True, exchange="events")]),
    "basic.publish default exchange": (m.BasicPublish("", "orders"), [Ask("basic.publish", exchange="amq.default")]),
    "basic.get": (m.BasicGet("orders"), [Ask("basic.get", queue="orders")]),
    "basic.consume": (m.BasicConsume("orders", "c"), [Ask("basic.consume", queue="orders")]),
}


@pytest.fixture(params=[World, FrontWorld], ids=["single server", "cluster"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A single server, and a node of a cluster, with a user whose permissions a case says."""
    made: World = request.param()
    with made.broker.runtime:
        made.access.add_user("ann", hash_password("secret", CHEAP))
    yield made
    made.close()


def restore(world: World) -> None:
    """Make what earlier cases have deleted."""
    owner = world.client()
    for method in (m.QueueDelete("new"), m.ExchangeDelete("new")):
        owner.send(method)
    for name in ("events", "other"):
        owner.send(m.ExchangeDeclare(name, "topic"))
    owner.queue("orders")
    owner.send(m.ConnectionClose(200, "bye"), 0)


def permit(world: World, case: Case) -> None:
    """Give the user the permissions of a case."""
    with world.broker.runtime:
        world.access.set_permission("ann", "/", *case.triple)
        if case.topic is not None:
            world.access.set_topic_permission("ann", "/", "events", case.topic, case.topic)


def is_refused(client: Client, name: str, method: Method) -> bool:
    """Whether the server closes the channel because the user may not."""
    client.received()
    if isinstance(method, m.BasicPublish):
        copies = Properties(headers={"CC": ["a.c"]}) if name.endswith("CC") else None
        client.send_content(method, copies, b"body")
    else:
        client.send(method)
    closed = [each.method for each in client.received() if isinstance(each.method, m.ChannelClose)]
    assert all(each.reply_code == 403 for each in closed), closed
    return bool(closed)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_method_needs_its_rights_and_no_others(world: World, name: str) -> None:
    method, asks = REQUESTS[name]
    wrong = []
    for case in entered(asks):
        restore(world)
        permit(world, case)
        client = world.client(user="ann", password="secret")
        if is_refused(client, name, method) == case.allowed:
            wrong.append(case.label)
        client.send(m.ConnectionClose(200, "bye"), 0)
    assert wrong == []


def entered(asks: list[Ask]) -> list[Case]:
    """The cases of a user that may enter the virtual host: no other has a channel."""
    return [case for case in cases(asks) if case.patterns is not None]


def test_a_user_that_may_not_enter_has_no_channel(world: World) -> None:
    client = world.stranger()
    client.start("ann", "secret")
    client.tune()
    client.received()
    client.send(m.ConnectionOpen("/"), 0)
    assert client.next(m.ConnectionClose).reply_code == 530
