"""What AMQP changes and refuses is in the audit log: changes only, not every declaration."""

import pytest

from leveret.observability.audit import Audit
from leveret.security.passwords import hash_password
from leveret.wire.methods import (
    BasicPublish,
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from tests.protocols.amqp.client import CHEAP, Client, World


@pytest.fixture
def audit(world: World) -> Audit:
    world.hub.audit = Audit(world.clock)
    return world.hub.audit


def acts(audit: Audit) -> list[str]:
    return [row["act"] for row in reversed(audit.recent())]


STEPS: list[tuple[Method, type[Method], dict[str, object]]] = [
    (
        ExchangeDeclare(exchange="events", type="topic", durable=True),
        ExchangeDeclareOk,
        {"act": "exchange.declare", "exchange": "events", "type": "topic"},
    ),
    (
        ExchangeDeclare(exchange="all", type="fanout"),
        ExchangeDeclareOk,
        {"act": "exchange.declare", "exchange": "all", "durable": False},
    ),
    (
        ExchangeBind(destination="events", source="all", routing_key="k"),
        ExchangeBindOk,
        {"act": "exchange.bind", "exchange": "all", "destination": "events"},
    ),
    (
        QueueDeclare(queue="orders", arguments={"x-max-length": 5}),
        QueueDeclareOk,
        {"act": "queue.declare", "queue": "orders", "arguments": "{'x-max-length': 5}"},
    ),
    (
        QueueBind(queue="orders", exchange="events", routing_key="a.#"),
        QueueBindOk,
        {"act": "queue.bind", "queue": "orders", "exchange": "events", "routing_key": "a.#"},
    ),
    (
        QueueUnbind(queue="orders", exchange="events", routing_key="a.#"),
        QueueUnbindOk,
        {"act": "queue.unbind", "queue": "orders", "exchange": "events"},
    ),
    (
        ExchangeUnbind(destination="events", source="all", routing_key="k"),
        ExchangeUnbindOk,
        {"act": "exchange.unbind", "exchange": "all", "destination": "events"},
    ),
    (
        QueueDeclare(queue="own", exclusive=True),
        QueueDeclareOk,
        {"act": "queue.declare", "queue": "own", "exclusive": True},
    ),
    (QueueDelete(queue="orders"), QueueDeleteOk, {"act": "queue.delete", "queue": "orders", "count": 0}),
    (ExchangeDelete(exchange="events"), ExchangeDeleteOk, {"act": "exchange.delete", "exchange": "events"}),
]


def test_every_change_of_a_definition_is_noted_once(world: World, audit: Audit) -> None:
    client = world.client()
    for method, answer, facts in STEPS:
        before = len(audit.recent())
        for _ in range(2):  # the second one changes nothing
            client.call(method, answer)
        rows = audit.recent()
        assert len(rows) == before + 1, method
        assert facts.items() <= rows[0].items()
        assert {"by": "guest", "kind": "clients", "peer": "127.0.0.1", "vhost": "/"}.items() <= rows[0].items()


def test_a_passive_declaration_is_no_change(world: World, audit: Audit) -> None:
    client = world.client()
    client.call(QueueDeclare(queue="orders"), QueueDeclareOk)
    client.call(QueueDeclare(queue="orders", passive=True), QueueDeclareOk)
    client.call(ExchangeDeclare(exchange="amq.topic", passive=True), ExchangeDeclareOk)
    assert acts(audit) == ["queue.declare"]


def test_a_purge_has_its_count(world: World, audit: Audit) -> None:
    client = world.client()
    client.call(QueueDeclare(queue="orders"), QueueDeclareOk)
    client.call(QueuePurge(queue="orders"), QueuePurgeOk)
    for _ in range(3):
        client.send_content(BasicPublish(routing_key="orders"), None, b"x")
    client.call(QueuePurge(queue="orders"), QueuePurgeOk)
    assert acts(audit) == ["queue.declare", "queue.purge"]
    assert audit.recent(1)[0]["count"] == 3
    client.send_content(BasicPublish(routing_key="orders"), None, b"x")
    client.call(QueueDelete(queue="orders"), QueueDeleteOk)
    assert (audit.recent(1)[0]["act"], audit.recent(1)[0]["count"]) == ("queue.delete", 1)


def test_what_is_refused_is_counted(world: World, audit: Audit) -> None:
    with world.broker.runtime:
        world.access.add_user("mallory", hash_password("without rights", CHEAP))
        world.access.set_permission("mallory", "/", "", "", "")
    for _ in range(3):
        client = world.client(user="mallory", password="without rights")
        client.send(QueueDelete(queue="orders"))
    (row,) = audit.recent()
    assert (row["by"], row["act"], row["kind"]) == ("mallory", "queue.delete", "refusals")
    assert "orders" in row["outcome"]
    audit.summarise(all=True)
    assert audit.recent(1)[0]["count"] == 2


def test_without_an_audit_log_nothing_is_noted(world: World) -> None:
    client: Client = world.client()
    client.call(QueueDeclare(queue="orders"), QueueDeclareOk)
    assert world.hub.audit is None
