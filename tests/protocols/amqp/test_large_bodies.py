"""Bodies that are kept outside of the log: stored and fetched in other threads, while order and confirms hold."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.core.errors import BlobStoreFailed
from leveret.core.policy import Policy
from leveret.core.properties import content
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    BasicReject,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.protocols.amqp.client import Client, World

LARGE = bytes(range(256)) * 8


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A hub on files where a kilobyte is much."""
    made = World(AmqpLimits(blob_bytes=1_024), str(tmp_path), blob_bytes=1_024)
    yield made
    made.close()


def stored(tmp_path: Path) -> int:
    return sum(1 for each in (tmp_path / "blobs").rglob("*") if each.is_file())


def consume(client: Client, no_ack: bool = False) -> None:
    client.call(BasicConsume("q", "c", no_ack=no_ack), BasicConsumeOk)
    client.world.work()


def put_off(world: World, client: Client, body: bytes) -> None:
    """Publish, but do not let the other threads work yet."""
    client.writer.content(1, encode(BasicPublish("", "q")), *content(None, body))
    world.hub.receive(client.connection, client.writer.take())


def test_a_large_body_comes_back_whole(world: World, client: Client, tmp_path: Path) -> None:
    client.queue(durable=True)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish(body=LARGE, delivery_mode=2)
    assert client.next(BasicAck) == BasicAck(1, False)
    assert stored(tmp_path) == 1
    consume(client)
    came = client.next_content(BasicDeliver)
    assert came.body == LARGE
    assert came.method.redelivered is False


@pytest.mark.parametrize("no_ack", [True, False])
def test_order_holds_between_large_and_small(world: World, client: Client, no_ack: bool) -> None:
    client.queue(durable=True)
    sent = [b"1", LARGE + b"2", b"3", LARGE + b"4", b"5"]
    for body in sent:
        client.publish(body=body, delivery_mode=2)
    consume(client, no_ack=no_ack)
    assert [each.body for each in client.received()] == sent


def test_get_waits_for_the_body(world: World, client: Client) -> None:
    client.queue(durable=True)
    client.publish(body=LARGE)
    client.publish(body=b"small")
    client.send(BasicGet("q"))
    came = client.next_content(BasicGetOk)
    assert (came.body, came.method) == (LARGE, BasicGetOk(1, False, "", "q", 1))


def test_nothing_is_heard_or_confirmed_while_a_body_is_stored(world: World, client: Client) -> None:
    client.queue(durable=True)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    put_off(world, client, LARGE)
    assert not client.connection.wants_input
    put_off(world, client, b"after")
    assert client.nothing()
    world.work()
    assert client.connection.wants_input
    assert client.received()[-1].method.delivery_tag == 2
    queue = world.core.topology.vhost("/").queue("q")
    assert queue.depth == 2


def test_who_is_lost_meanwhile_leaves_no_body_behind(world: World, client: Client) -> None:
    client.queue(durable=True)
    put_off(world, client, LARGE)
    world.hub.lost(client.connection)
    world.work()
    assert world.core.topology.vhost("/").queue("q").depth == 0
    assert not world.core.engine.blobs


def test_a_body_that_nobody_wants_is_not_stored(world: World, client: Client, tmp_path: Path) -> None:
    client.publish("nowhere", LARGE)
    assert stored(tmp_path) == 0


def test_a_transaction_takes_large_bodies(world: World, client: Client) -> None:
    client.queue(durable=True)
    client.call(TxSelect(), TxSelectOk)
    client.publish(body=LARGE)
    client.call(TxRollback(), TxRollbackOk)
    client.publish(body=LARGE)
    client.call(TxCommit(), TxCommitOk)
    assert world.core.topology.vhost("/").queue("q").depth == 1
    assert len(world.core.engine.blobs) == 1


def test_a_queue_with_a_smaller_limit_refuses(world: World, client: Client, tmp_path: Path) -> None:
    client.queue(durable=True, arguments={"x-max-message-size": 2_000})
    client.publish(body=LARGE)
    close = client.next(ChannelClose)
    assert close.reply_code == 406
    assert close.reply_text.startswith(
        "PRECONDITION_FAILED - message size 2048 is larger than configured max size 2000"
    )
    assert stored(tmp_path) == 0


def test_a_store_that_fails_is_506(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes, now_ms: int) -> bytes:
        raise BlobStoreFailed("no answer")

    client.queue(durable=True)
    monkeypatch.setattr(world.broker.runtime.large, "put", fail)
    client.publish(body=LARGE)
    assert client.next(ConnectionClose) == ConnectionClose(506, "RESOURCE_ERROR - no answer", 60, 40)


def test_a_store_that_fails_is_asked_again(world: World, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client.queue(durable=True)
    client.publish(body=LARGE)
    large = world.broker.runtime.large
    assert large is not None

    def fail(pointer: bytes) -> bytes:
        raise BlobStoreFailed("no answer")

    with monkeypatch.context() as broken:
        broken.setattr(large, "get", fail)
        consume(client)
    assert client.nothing()
    world.pass_ms(1_000)
    world.work()
    assert client.next_content(BasicDeliver).body == LARGE


def test_a_body_outlives_one_of_its_two_queues(world: World, client: Client) -> None:
    for queue in ("q", "other"):
        client.queue(queue, durable=True)
        client.call(QueueBind(queue, "amq.fanout"), QueueBindOk)
    client.publish("", LARGE, "amq.fanout", delivery_mode=2)
    client.call(BasicGet("q"), BasicGetOk)
    client.send(BasicReject(1, requeue=True))
    client.call(QueueDelete("q"), QueueDeleteOk)
    assert list(world.core.engine.blobs.values()) == [1]


def test_a_delay_that_is_none_is_refused_for_large_bodies_too(world: World, client: Client) -> None:
    client.queue(durable=True)
    client.call(ExchangeDeclare("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}), ExchangeDeclareOk)
    client.call(QueueBind("q", "late"), QueueBindOk)
    client.publish("", LARGE, "late", headers={"x-delay": "soon"})
    assert client.next(ChannelClose).reply_code == 406


def test_what_is_refused_after_its_body_was_stored_closes_the_channel_only(world: World, client: Client) -> None:
    client.queue(durable=True)
    put_off(world, client, LARGE)
    world.core.set_policy("/", Policy("small", ".*", definition={"max-message-size": 10}))
    world.work()
    assert client.next(ChannelClose).reply_code == 406
    assert not world.core.engine.blobs
    assert not client.connection.finished


def test_a_store_that_breaks_does_not_leave_its_client_waiting(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.queue(durable=True)
    monkeypatch.setattr(world.broker.runtime.large, "put", None)
    client.publish(body=LARGE)
    assert client.next(ConnectionClose).reply_code == 541


def test_get_is_answered_when_its_queue_is_deleted_meanwhile(world: World, client: Client) -> None:
    client.queue(durable=True)
    client.publish(body=LARGE)
    client.writer.method(1, encode(BasicGet("q")))
    world.hub.receive(client.connection, client.writer.take())
    world.core.delete_queue(world.core.topology.vhost("/").queue("q"))
    world.work()
    client.next(BasicGetEmpty)


def test_a_body_whose_message_is_gone_is_not_asked_for_again(
    world: World, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.queue(durable=True)
    client.publish(body=LARGE)
    client.publish(body=b"small")

    def purge_and_fail(pointer: bytes) -> bytes:
        world.core.delete_queue(world.core.topology.vhost("/").queue("q"))
        raise BlobStoreFailed("no such blob")

    monkeypatch.setattr(world.broker.runtime.large, "get", purge_and_fail)
    consume(client)
    world.pass_ms(1_000)
    assert not world.jobs
