"""A running connection: closing both ways, heartbeats, alarms, and what a client can break."""

import base64
import hashlib
import logging

import pytest

from leveret.core.names import CONSUMER_NAME_CHARS_MAX
from leveret.protocols.amqp import channel
from leveret.protocols.amqp.connection import AmqpConnection
from leveret.security.passwords import hash_password, imported
from leveret.wire.codec import encode
from leveret.wire.frames import PROTOCOL_HEADER, FrameWriter
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionStartOk,
    ConnectionTuneOk,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDelete,
)
from tests.protocols.amqp.client import CHEAP, Client, World

SHA256 = "rabbit_password_hashing_sha256"
HEARTBEAT = b"\x08" + bytes(6) + b"\xce"


def test_the_client_closes(client: Client) -> None:
    client.send(ConnectionClose(200, "bye"), 0)
    client.next(ConnectionCloseOk)
    assert client.connection.finished


def test_after_a_connection_error_only_close_ok_is_heard(client: Client) -> None:
    client.send(BasicQos(), 7)
    client.next(ConnectionClose)
    client.send(QueueDeclare("q"))
    assert client.nothing()
    assert not client.connection.finished
    client.send(ConnectionCloseOk(), 0)
    assert client.connection.finished
    assert "q" not in client.world.core.topology.vhost("/").queues


def test_crossing_closes_end(client: Client) -> None:
    client.connection.ask_close(320, "CONNECTION_FORCED - shutdown")
    assert client.next(ConnectionClose) == ConnectionClose(320, "CONNECTION_FORCED - shutdown")
    client.send(ConnectionClose(200, "bye"), 0)
    client.next(ConnectionCloseOk)
    assert client.connection.finished


def test_who_does_not_answer_a_close_is_cut_off(client: Client) -> None:
    client.world.hub.ask_close(320, "CONNECTION_FORCED - shutdown")
    client.next(ConnectionClose)
    client.world.pass_ms(30_000)
    assert not client.connection.finished
    client.world.pass_ms(1)
    assert client.connection.finished


def test_a_method_on_channel_0_that_does_not_belong_there_is_504(client: Client) -> None:
    client.send(ConnectionTuneOk(), 0)
    text = "CHANNEL_ERROR - unexpected method in connection state running"
    assert client.next(ConnectionClose) == ConnectionClose(504, text, 10, 31)


def test_heartbeats_are_sent_and_expected(world: World) -> None:
    client = world.client(heartbeat=10)
    world.pass_ms(5_000)
    client.received()
    assert client.heartbeats == 1
    writer = FrameWriter()
    writer.heartbeat()
    client.send_bytes(writer.take())
    world.pass_ms(20_000)
    assert not client.connection.finished
    world.pass_ms(1)
    world.pass_ms(1)
    assert client.connection.finished


@pytest.mark.parametrize("interval_s", [1, 2, 3, 10, 60])
def test_an_idle_client_gets_two_heartbeats_in_each_interval(world: World, interval_s: int) -> None:
    client = world.client(heartbeat=interval_s)
    for _ in range(10 * interval_s):
        world.clock.advance(0.4)  # the two timers need not be exactly half a second apart
        world.hub.beat()
        client.received()
        world.pass_ms(600)
        client.received()
        client.send_bytes(HEARTBEAT)
    assert 20 <= client.heartbeats <= 21 + 5 * interval_s


def test_a_client_that_is_sent_something_gets_no_heartbeats(world: World) -> None:
    client = world.client(heartbeat=1)
    for _ in range(10):
        world.clock.advance(0.5)
        client.queue()
        world.hub.beat()
        world.clock.advance(0.5)
        client.queue()
        world.pass_ms(0)
    assert client.heartbeats == 0


def test_a_connection_that_is_gone_gets_no_heartbeats(world: World) -> None:
    client = world.client(heartbeat=1)
    assert world.hub.short_heartbeats == {client.connection}
    world.hub.lost(client.connection)
    assert world.hub.short_heartbeats == set()


def test_who_was_not_heard_because_the_server_stood_still_is_heard_then(world: World) -> None:
    client = world.client(heartbeat=10)
    writer = FrameWriter()
    for _ in range(2):
        world.pass_ms(60_000)
        assert not client.connection.finished
        writer.heartbeat()
        client.send_bytes(writer.take())
        world.pass_ms(1)
        assert not client.connection.finished


def test_who_is_not_heard_need_not_send_heartbeats(world: World) -> None:
    client = world.client(heartbeat=10)
    client.queue()
    world.hub.set_alarm("memory")
    client.publish()
    for _ in range(5):
        world.pass_ms(10_000)
    assert not client.connection.finished
    world.hub.set_alarm(None)
    world.pass_ms(19_000)
    assert not client.connection.finished


def test_publishers_are_blocked_while_there_is_an_alarm(world: World) -> None:
    publisher, consumer = world.client(), world.client()
    publisher.queue()
    consumer.call(BasicConsume("q", no_ack=True), BasicConsumeOk)
    publisher.publish(body=b"before")
    world.hub.set_alarm("low on memory")
    assert publisher.connection.wants_input
    publisher.call(ConfirmSelect(), ConfirmSelectOk)
    publisher.publish(body=b"during")
    assert publisher.next(ConnectionBlocked) == ConnectionBlocked("low on memory")
    assert not publisher.connection.wants_input
    publisher.publish(body=b"later")
    assert publisher.nothing()
    assert [each.body for each in consumer.received()] == [b"before"]
    world.hub.set_alarm(None)
    publisher.next(ConnectionUnblocked)
    acks = [each.method for each in publisher.received()]
    assert acks[-1].delivery_tag == 2
    assert all(isinstance(each, BasicAck) for each in acks)
    assert [each.body for each in consumer.received()] == [b"during", b"later"]


def test_an_alarm_does_not_stop_consumers(world: World) -> None:
    client = world.client()
    client.queue()
    client.publish()
    world.hub.set_alarm("low on memory")
    client.call(BasicConsume("q"), BasicConsumeOk)
    client.send(BasicAck(client.next(BasicDeliver).delivery_tag))
    assert world.core.topology.vhost("/").queue("q").leased == 0


def test_broken_code_is_541_and_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(channel: object, method: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setitem(channel.HANDLERS, BasicQos, broken)
    with caplog.at_level(logging.ERROR):
        client.send(BasicQos())
    text = "INTERNAL_ERROR - the broker failed; its log says how"
    assert client.next(ConnectionClose) == ConnectionClose(541, text, 60, 10)
    assert "a bug" in caplog.text


def test_a_slow_reader_gets_no_more_than_fits(world: World) -> None:
    client = world.client()
    client.queue()
    client.call(BasicConsume("q", no_ack=True), BasicConsumeOk)
    client.connection.writable(False)
    for _ in range(10):
        client.publish(body=bytes(1_000))
    assert client.nothing()
    client.connection.writable(True)
    world.hub.flush()
    assert len(client.received()) == 10


def test_a_lost_connection_is_forgotten(world: World) -> None:
    client = world.client()
    world.hub.lost(client.connection)
    assert client.connection not in world.hub.connections
    assert client.connection.finished


def test_a_login_that_is_decided_too_late_is_for_nobody(world: World) -> None:
    client = world.stranger()
    client.send_bytes(PROTOCOL_HEADER)
    client.writer.method(0, encode(ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")))
    world.hub.receive(client.connection, client.writer.take())
    assert len(world.jobs) == 1
    world.hub.lost(client.connection)
    world.work()
    assert client.connection.finished
    assert client.connection.identity is None


def test_who_is_deleted_has_to_go(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", ".*", ".*", ".*")
    client = world.client(user="ann", password="secret")
    with world.broker.runtime:
        world.access.delete_user("ann")
    world.pass_ms(1)
    assert client.next(ConnectionClose) == ConnectionClose(320, "CONNECTION_FORCED - user 'ann' is deleted")


def test_with_a_vhost_go_its_connections(world: World) -> None:
    with world.broker.runtime:
        world.access.declare_vhost("v")
        world.access.set_permission("guest", "v", ".*", ".*", ".*")
    client = world.client(vhost="v")
    client.queue()
    with world.broker.runtime:
        world.access.delete_vhost("v")
    client.publish()
    assert client.next(ConnectionClose) == ConnectionClose(320, "CONNECTION_FORCED - vhost 'v' is deleted")


def test_a_weak_hash_is_replaced_at_the_next_login(world: World) -> None:
    weak = imported(base64.b64encode(b"salt" + hashlib.sha256(b"saltsecret").digest()).decode(), SHA256)
    with world.broker.runtime:
        world.access.add_user("ann", weak)
        world.access.set_permission("ann", "/", ".*", ".*", ".*")
    world.client(user="ann", password="secret")
    assert world.access.users.get("ann").password_hash != weak
    world.client(user="ann", password="secret")


def test_exclusive_queues_that_are_gone_are_forgotten(world: World) -> None:
    client = world.client()
    for i in range(200):
        client.queue(f"q{i}", exclusive=True)
        client.send(QueueDelete(f"q{i}"))
        client.received()
    client.queue("last", exclusive=True)
    assert len(client.connection.owned) < 50
    world.hub.lost(client.connection)
    assert not world.core.topology.vhost("/").queues


def test_who_is_blocked_can_still_answer_a_close(world: World) -> None:
    client = world.client()
    client.queue()
    world.hub.set_alarm("low on memory")
    client.publish()
    client.next(ConnectionBlocked)
    world.hub.ask_close(320, "CONNECTION_FORCED - shutdown")
    client.next(ConnectionClose)
    client.send(ConnectionCloseOk(), 0)
    assert client.connection.finished
    assert world.core.topology.vhost("/").queue("q").depth == 0


def test_a_bug_beside_the_frames_ends_only_that_connection(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(connection: object) -> None:
        raise RuntimeError("a bug")

    first, second = world.client(), world.client()
    with monkeypatch.context() as patched, caplog.at_level(logging.ERROR):
        patched.setattr(AmqpConnection, "check_virtual_host", broken)
        first.send(BasicQos())
    assert first.connection.finished
    assert "a bug" in caplog.text
    second.call(BasicQos(), BasicQosOk)


@pytest.mark.parametrize(
    ("given", "known"),
    [
        (None, "guest"),
        ("", "guest"),
        ("till 1", "guest/till 1"),
        ("x" * 1_000, "guest/" + "x" * (CONSUMER_NAME_CHARS_MAX - len("guest/"))),
    ],
)
def test_the_journal_knows_consumers_by_user_and_name_of_the_connection(
    world: World, given: str | None, known: str
) -> None:
    client = world.client(name=given)
    client.queue("q")
    for tag in ("one", "another"):
        client.call(BasicConsume("q", consumer_tag=tag), BasicConsumeOk)
    assert set(world.core.engine.consumer_ids) == {known}
