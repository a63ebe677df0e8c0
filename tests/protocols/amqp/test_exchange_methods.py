"""exchange.*: declarations, deleting, bindings between exchanges."""

from typing import Any

import pytest

from leveret.security.passwords import hash_password
from leveret.wire.methods import (
    BasicGet,
    BasicGetOk,
    ChannelClose,
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
)
from tests.protocols.amqp.client import CHEAP, Client, World


def refused(client: Client, method: Method) -> tuple[int, str]:
    client.send(method)
    close = client.next(ChannelClose)
    return close.reply_code, close.reply_text


def test_an_exchange_is_declared_used_and_deleted(client: Client) -> None:
    client.call(ExchangeDeclare("x", "fanout"), ExchangeDeclareOk)
    client.call(ExchangeDeclare("x", "fanout"), ExchangeDeclareOk)
    client.call(ExchangeDeclare("x", "direct", passive=True), ExchangeDeclareOk)
    client.queue()
    client.call(QueueBind("q", "x"), QueueBindOk)
    client.publish("any", exchange="x")
    client.send(BasicGet("q"))
    assert client.next(BasicGetOk) == BasicGetOk(1, False, "x", "any", 0)
    client.call(ExchangeDelete("x"), ExchangeDeleteOk)
    client.call(ExchangeDelete("x"), ExchangeDeleteOk)
    assert refused(client, ExchangeDeclare("x", passive=True)) == (404, "NOT_FOUND - no exchange 'x' in vhost '/'")


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (ExchangeDeclare("x", "no-such"), 406, "PRECONDITION_FAILED - unknown exchange type 'no-such'"),
        (ExchangeDeclare("", "direct"), 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (ExchangeDeclare("", passive=True), 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (ExchangeDelete(""), 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (ExchangeBind("", "amq.direct"), 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (ExchangeBind("amq.direct", "none"), 404, "NOT_FOUND - no exchange 'none' in vhost '/'"),
        (
            ExchangeDeclare("amq.mine", "direct"),
            403,
            "ACCESS_REFUSED - exchange name 'amq.mine' contains reserved prefix 'amq.*'",
        ),
    ],
)
def test_refusals(client: Client, method: Method, code: int, text: str) -> None:
    assert refused(client, method) == (code, text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"type": "direct"}, "'type' for exchange 'x' in vhost '/': received 'direct' but current is 'fanout'"),
        ({"durable": True}, "'durable' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
        ({"internal": True}, "'internal' for exchange 'x' in vhost '/': received 'true' but current is 'false'"),
    ],
)
def test_another_declaration_is_406(client: Client, options: dict[str, Any], text: str) -> None:
    client.call(ExchangeDeclare("x", "fanout"), ExchangeDeclareOk)
    expected = (406, f"PRECONDITION_FAILED - inequivalent arg {text}")
    assert refused(client, ExchangeDeclare("x", **{"type": "fanout", **options})) == expected


def test_an_exchange_in_use_stays_with_if_unused(client: Client) -> None:
    client.queue()
    client.call(ExchangeDeclare("x", "fanout"), ExchangeDeclareOk)
    client.call(QueueBind("q", "x"), QueueBindOk)
    expected = (406, "PRECONDITION_FAILED - exchange 'x' in vhost '/' in use")
    assert refused(client, ExchangeDelete("x", if_unused=True)) == expected


def test_nobody_publishes_to_an_internal_exchange(client: Client) -> None:
    client.call(ExchangeDeclare("x", "fanout", internal=True), ExchangeDeclareOk)
    client.publish(exchange="x")
    close = client.next(ChannelClose)
    text = "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'"
    assert close == ChannelClose(403, text, 60, 40)


def test_exchanges_lead_to_exchanges(client: Client) -> None:
    client.queue()
    client.call(ExchangeDeclare("inner", "fanout"), ExchangeDeclareOk)
    client.call(QueueBind("q", "inner"), QueueBindOk)
    client.call(ExchangeBind("inner", "amq.topic", "a.#"), ExchangeBindOk)
    client.publish("a.b", exchange="amq.topic")
    client.call(ExchangeUnbind("inner", "amq.topic", "a.#"), ExchangeUnbindOk)
    client.publish("a.b", exchange="amq.topic")
    client.send(BasicGet("q"))
    assert client.next(BasicGetOk).message_count == 0


def test_an_alternate_exchange_needs_permissions(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", ".*", "^mine", ".*")
    client = world.client(user="ann", password="secret")
    client.call(ExchangeDeclare("x", "direct", arguments={"alternate-exchange": "mine"}), ExchangeDeclareOk)
    method = ExchangeDeclare("y", "direct", arguments={"alternate-exchange": "other"})
    text = "ACCESS_REFUSED - write access to exchange 'other' in vhost '/' refused for user 'ann'"
    assert refused(client, method) == (403, text)


def test_a_delayed_message_waits(world: World) -> None:
    client = world.client()
    client.queue()
    arguments = {"x-delayed-type": "direct"}
    client.call(ExchangeDeclare("later", "x-delayed-message", arguments=arguments), ExchangeDeclareOk)
    client.call(QueueBind("q", "later", "k"), QueueBindOk)
    client.publish("k", b"late", exchange="later", headers={"x-delay": 1_000})
    client.publish("k", b"now", exchange="later")
    world.pass_ms(1)
    client.send(BasicGet("q"))
    assert client.next_content(BasicGetOk).body == b"now"
    world.pass_ms(1_000)
    client.send(BasicGet("q"))
    assert client.next_content(BasicGetOk).body == b"late"


def test_a_bad_delay_is_406(client: Client) -> None:
    client.queue()
    arguments = {"x-delayed-type": "direct"}
    client.call(ExchangeDeclare("later", "x-delayed-message", arguments=arguments), ExchangeDeclareOk)
    client.call(QueueBind("q", "later", "k"), QueueBindOk)
    client.publish("k", exchange="later", headers={"x-delay": "soon"})
    assert client.next(ChannelClose).reply_code == 406
