"""queue.*: declarations, bindings, purging and deleting, with their refusals."""

import logging
from typing import Any

import pytest

from leveret.security.passwords import hash_password
from leveret.wire.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
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

LOCKED = (
    "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q' in vhost '/'. It could be originally "
    "declared on another connection or the exclusive property value does not match that of the original declaration."
)


def refused(client: Client, method: Method) -> ChannelClose:
    client.send(method)
    return client.next(ChannelClose)


def test_a_declaration_counts_messages_and_consumers(client: Client) -> None:
    assert client.call(QueueDeclare("q"), QueueDeclareOk) == QueueDeclareOk("q", 0, 0)
    client.publish()
    client.publish()
    assert client.call(QueueDeclare("q"), QueueDeclareOk) == QueueDeclareOk("q", 2, 0)
    client.call(BasicConsume("q"), BasicConsumeOk)
    client.received()
    assert client.call(QueueDeclare("q", passive=True), QueueDeclareOk) == QueueDeclareOk("q", 0, 1)


def test_a_passive_declaration_keeps_an_expiring_queue(world: World, client: Client) -> None:
    client.queue("q", arguments={"x-expires": 1_000})
    for _ in range(3):
        world.pass_ms(900)
        assert client.queue("q", passive=True) == "q"
    world.pass_ms(1_000)
    assert refused(client, QueueDeclare("q", passive=True)).reply_code == 404


def test_the_server_names_queues(client: Client) -> None:
    name = client.queue("")
    assert name.startswith("amq.gen-")
    assert len(name) == len("amq.gen-") + 22
    assert client.queue(name, passive=True) == name
    assert client.queue(name) == name


def test_no_name_is_the_queue_declared_last(client: Client) -> None:
    name = client.queue("")
    client.publish(name)
    client.call(ExchangeDeclare("d", "direct"), ExchangeDeclareOk)
    client.call(QueueBind("", "d", ""), QueueBindOk)
    client.publish(name, exchange="d")
    client.send(BasicGet(""))
    assert client.next(BasicGetOk).message_count == 1
    assert client.call(QueuePurge(""), QueuePurgeOk) == QueuePurgeOk(1)
    assert client.call(QueueDelete(""), QueueDeleteOk) == QueueDeleteOk(0)


@pytest.mark.parametrize("method", [BasicGet(""), BasicConsume(""), QueuePurge(""), QueueDelete(""), QueueBind("")])
def test_without_a_queue_declared_last_it_is_404(client: Client, method: Method) -> None:
    assert refused(client, method).reply_text == "NOT_FOUND - no previously declared queue"


def test_nowait_is_not_answered(client: Client) -> None:
    client.send(QueueDeclare("q", nowait=True))
    client.send(QueueBind("q", "amq.direct", "k", nowait=True))
    client.send(QueuePurge("q", nowait=True))
    client.send(QueueDelete("q", nowait=True))
    client.send(ExchangeDeclare("x", "fanout", nowait=True))
    assert client.nothing()


def test_line_ends_are_not_part_of_a_name(client: Client) -> None:
    assert client.queue("q\r\n") == "q"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durable": True}, "'durable' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
        ({"auto_delete": True}, "'auto_delete' for queue 'q' in vhost '/': received 'true' but current is 'false'"),
        (
            {"arguments": {"x-message-ttl": 1}},
            "'x-message-ttl' for queue 'q' in vhost '/': "
            "received the value '1' of type 'signedint' but current is none",
        ),
    ],
)
def test_another_declaration_of_the_same_queue_is_406(client: Client, options: dict[str, Any], text: str) -> None:
    client.queue("q")
    close = refused(client, QueueDeclare("q", **options))
    assert close == ChannelClose(406, f"PRECONDITION_FAILED - inequivalent arg {text}", 50, 10)


def test_reserved_names_are_403(client: Client) -> None:
    text = "ACCESS_REFUSED - queue name 'amq.mine' contains reserved prefix 'amq.*'"
    assert refused(client, QueueDeclare("amq.mine")) == ChannelClose(403, text, 50, 10)


def test_quorum_queues_are_named_by_clients(client: Client) -> None:
    close = refused(client, QueueDeclare("", durable=True, arguments={"x-queue-type": "quorum"}))
    assert close.reply_text == "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare("q"),
        QueueDeclare("q", passive=True),
        QueueDeclare("q", exclusive=True),
        BasicConsume("q"),
        BasicGet("q"),
        QueuePurge("q"),
        QueueDelete("q"),
        QueueBind("q", "amq.direct", "k"),
        QueueUnbind("q", "amq.direct", "k"),
    ],
)
def test_an_exclusive_queue_is_for_its_connection_only(world: World, method: Method) -> None:
    owner, other = world.client(), world.client()
    owner.queue(exclusive=True)
    owner.open_channel(2)
    assert owner.queue(channel=2, exclusive=True) == "q"
    close = refused(other, method)
    assert (close.reply_code, close.reply_text) == (405, LOCKED)


def test_an_exclusive_queue_ends_with_its_connection(world: World) -> None:
    owner, other = world.client(), world.client()
    owner.queue(exclusive=True, durable=True)
    owner.send(ConnectionClose(200, "bye"), 0)
    assert refused(other, QueueDeclare("q", passive=True)).reply_code == 404


def test_an_auto_delete_queue_ends_with_its_last_consumer(world: World) -> None:
    client = world.client()
    client.queue(auto_delete=True)
    client.open_channel(2)
    client.call(BasicConsume("q", "c"), BasicConsumeOk, 2)
    assert client.call(QueueDeclare("q", passive=True), QueueDeclareOk).consumer_count == 1
    world.hub.lost(client.connection)
    assert refused(world.client(), QueueDeclare("q", passive=True)).reply_code == 404


def test_deleting_a_used_queue_with_if_unused_is_406(client: Client) -> None:
    client.queue()
    client.open_channel(2)
    client.call(BasicConsume("q", "c"), BasicConsumeOk, 2)
    close = refused(client, QueueDelete("q", if_unused=True))
    assert (close.reply_code, close.reply_text) == (406, "PRECONDITION_FAILED - queue 'q' in vhost '/' in use")


def test_deleting_a_full_queue_with_if_empty_is_406(client: Client) -> None:
    client.queue()
    client.publish()
    close = refused(client, QueueDelete("q", if_empty=True))
    assert (close.reply_code, close.reply_text) == (406, "PRECONDITION_FAILED - queue 'q' in vhost '/' not empty")


def test_deleting_what_is_not_there_succeeds(client: Client) -> None:
    assert client.call(QueueDelete("missing"), QueueDeleteOk) == QueueDeleteOk(0)


def test_bindings_lead_and_lead_no_more(client: Client) -> None:
    client.queue()
    client.call(QueueBind("q", "amq.direct", "k"), QueueBindOk)
    client.publish("k", exchange="amq.direct")
    client.send(BasicGet("q", no_ack=True))
    client.next(BasicGetOk)
    client.call(QueueUnbind("q", "amq.direct", "k"), QueueUnbindOk)
    client.call(QueueUnbind("q", "missing", "k"), QueueUnbindOk)
    client.publish("k", exchange="amq.direct")
    client.send(BasicGet("q"))
    client.next(BasicGetEmpty)


@pytest.mark.parametrize(
    ("method", "code", "text"),
    [
        (QueueBind("q", "", "k"), 403, "ACCESS_REFUSED - operation not permitted on the default exchange"),
        (QueueBind("q", "missing", "k"), 404, "NOT_FOUND - no exchange 'missing' in vhost '/'"),
        (QueueBind("missing", "amq.direct", "k"), 404, "NOT_FOUND - no queue 'missing' in vhost '/'"),
    ],
)
def test_bindings_need_both_ends(client: Client, method: Method, code: int, text: str) -> None:
    client.queue()
    assert refused(client, method) == ChannelClose(code, text, 50, 20)


def test_the_queues_of_a_vhost_are_counted(world: World) -> None:
    with world.broker.runtime:
        world.access.set_vhost_limits("/", {"max-queues": 1})
    client = world.client()
    client.queue("a")
    client.queue("a")
    text = "PRECONDITION_FAILED - cannot declare queue 'b': queue limit in vhost '/' (1) is reached"
    assert refused(client, QueueDeclare("b")) == ChannelClose(406, text, 50, 10)


def test_a_single_active_consumer_of_a_quorum_queue_excludes_get(client: Client) -> None:
    client.queue(durable=True, arguments={"x-single-active-consumer": True, "x-queue-type": "quorum"})
    close = refused(client, BasicGet("q"))
    assert close.reply_code == 405
    assert close.reply_text.endswith("not supported by quorum queues with single active consumer")


@pytest.mark.parametrize(
    ("method", "what"),
    [
        (QueueDeclare("q2"), "configure access to queue 'q2'"),
        (QueueDelete("q"), "configure access to queue 'q'"),
        (QueuePurge("q"), "read access to queue 'q'"),
        (BasicGet("q"), "read access to queue 'q'"),
        (BasicConsume("q"), "read access to queue 'q'"),
        (QueueBind("q", "amq.direct"), "write access to queue 'q'"),
        (ExchangeDeclare("x", "fanout"), "configure access to exchange 'x'"),
    ],
)
def test_permissions_are_asked(world: World, method: Method, what: str) -> None:
    world.client().queue("q")
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", "^mine", "^mine", "^mine")
    close = refused(world.client(user="ann", password="secret"), method)
    assert close.reply_text == f"ACCESS_REFUSED - {what} in vhost '/' refused for user 'ann'"
    assert close.reply_code == 403


def test_publishing_follows_a_permission_that_changes(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", ".*", ".*", ".*")
    client = world.client(user="ann", password="secret")
    client.queue()
    client.publish()
    with world.broker.runtime:
        world.access.set_permission("ann", "/", ".*", "", ".*")
    client.publish()
    text = "ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'ann'"
    assert client.next(ChannelClose) == ChannelClose(403, text, 60, 40)


def test_keys_of_topic_exchanges_have_permissions(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", ".*", ".*", ".*")
        world.access.set_topic_permission("ann", "/", "amq.topic", "^ok", "^ok")
    client = world.client(user="ann", password="secret")
    client.queue()
    client.call(QueueBind("q", "amq.topic", "ok.#"), QueueBindOk)
    client.publish("ok.1", exchange="amq.topic")
    client.publish("ok.2", exchange="amq.topic", headers={"CC": ["bad"]})
    close = client.next(ChannelClose)
    assert close.reply_text == (
        "ACCESS_REFUSED - write access to topic 'bad' in exchange 'amq.topic' in vhost '/' refused for user 'ann'"
    )


def test_the_log_tells_of_a_queue_that_cannot_hold_its_dead_letters(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = {
        "x-queue-type": "quorum",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": "amq.fanout",
    }
    with caplog.at_level(logging.WARNING):
        client.queue("held", durable=True, arguments={**arguments, "x-overflow": "reject-publish"})
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING):
        client.queue("dropped", durable=True, arguments=arguments)
    assert "falling back to dead-letter-strategy at-most-once" in caplog.text
