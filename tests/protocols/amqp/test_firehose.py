"""The firehose: copies of what clients of a virtual host publish and get; see also tests/rabbitmq/test_firehose.py."""

import logging
from typing import Any

import pytest

from leveret.core.errors import DiskFull
from leveret.core.topology import TRACE_EXCHANGE, VhostDetails
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.protocols.amqp.client import Client, Received, World


def trace(world: World, on: bool) -> None:
    with world.hub.locked() as core:
        core.declare_vhost("/", VhostDetails(tracing=on))


@pytest.fixture
def watcher(world: World) -> Client:
    """A client with a queue for all copies."""
    client = world.client()
    client.queue("trace")
    client.call(QueueBind("trace", TRACE_EXCHANGE, "#"), QueueBindOk)
    trace(world, True)
    return client


def copies(watcher: Client) -> list[Received]:
    """All that was copied until now."""
    found: list[Received] = []
    while True:
        watcher.send(BasicGet("trace", no_ack=True))
        (came,) = watcher.received()
        if not isinstance(came.method, BasicGetOk):
            return found
        found.append(came)


def keys(watcher: Client) -> list[str]:
    return [came.method.routing_key for came in copies(watcher)]


def headers(came: Received) -> dict[str, Any]:
    assert came.properties is not None
    assert came.properties.headers is not None
    return came.properties.headers


def test_publishes_and_deliveries_are_copied(watcher: Client, client: Client) -> None:
    client.queue()
    client.call(BasicConsume("q", "c"), BasicConsumeOk)
    client.publish(body=b"hello", app_id="shop")
    client.received()
    published, delivered = copies(watcher)
    assert (published.method.routing_key, delivered.method.routing_key) == ("publish.", "deliver.q")
    assert published.body == delivered.body == b"hello"
    assert headers(published)["properties"] == headers(delivered)["properties"] == {"app_id": "shop"}
    assert headers(published)["routed_queues"] == ["q"]
    assert headers(delivered)["redelivered"] == 0
    assert {each: headers(published)[each] for each in ("user", "vhost", "channel")} == {
        "user": "guest",
        "vhost": "/",
        "channel": 1,
    }


def test_channels_that_are_open_notice_that_it_is_turned_on_and_off(world: World, client: Client) -> None:
    client.queue()
    client.call(BasicConsume("q", no_ack=True), BasicConsumeOk)
    client.publish(body=b"before")
    watcher = world.client()
    watcher.queue("trace")
    watcher.call(QueueBind("trace", TRACE_EXCHANGE, "#"), QueueBindOk)
    trace(world, True)
    client.publish(body=b"traced")
    trace(world, False)
    client.publish(body=b"after")
    assert [came.body for came in copies(watcher)] == [b"traced", b"traced"]
    assert [came.body for came in client.received()] == [b"before", b"traced", b"after"]


def test_a_transaction_is_copied_when_it_is_published(watcher: Client, client: Client) -> None:
    client.queue()
    client.call(TxSelect(), TxSelectOk)
    client.publish()
    assert keys(watcher) == ["publish."]
    client.call(TxCommit(), TxCommitOk)
    assert keys(watcher) == []


def test_confirms_count_no_copies(watcher: Client, client: Client) -> None:
    client.queue()
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish()
    client.publish()
    assert [came.method for came in client.received()] == [BasicAck(1), BasicAck(2)]
    assert keys(watcher) == ["publish."] * 2


def test_copies_in_the_queue_of_a_consumer_are_not_copied_again(watcher: Client, client: Client) -> None:
    client.call(BasicConsume("trace", no_ack=True), BasicConsumeOk)
    client.publish("trace", b"m")
    came = [(each.method.exchange, each.method.routing_key) for each in client.received()]
    assert came == [(TRACE_EXCHANGE, "publish."), ("", "trace"), (TRACE_EXCHANGE, "deliver.trace")]


def test_a_body_that_is_kept_outside_of_the_log_is_left_out(watcher: Client, client: Client) -> None:
    client.queue()
    size_bytes = client.world.hub.limits.blob_bytes + 1
    client.publish(body=bytes(size_bytes))
    (copy,) = copies(watcher)
    assert copy.body == b""
    assert headers(copy)["body_bytes"] == size_bytes


def test_the_name_of_an_exchange_may_be_as_long_as_a_routing_key(watcher: Client, client: Client) -> None:
    name = "é" * 127
    with client.world.hub.locked() as core:
        core.declare_exchange("/", name, "fanout")
    client.publish("k", exchange=name)
    (copy,) = copies(watcher)
    assert copy.method.routing_key == "publish." + "é" * 123
    assert headers(copy)["exchange_name"] == name


def test_records_of_streams_are_copied(watcher: Client, client: Client) -> None:
    client.queue("s", durable=True, arguments={"x-queue-type": "stream"})
    client.publish("s", b"record")
    client.call(BasicQos(0, 10, False), BasicQosOk)
    client.call(BasicConsume("s", arguments={"x-stream-offset": "first"}), BasicConsumeOk)
    assert [each.body for each in client.received()] == [b"record"]
    assert keys(watcher) == ["publish.", "deliver.s"]


def test_a_copy_that_cannot_be_made_does_not_hold_up_its_message(
    watcher: Client, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client.queue()
    client.call(BasicConsume("q", no_ack=True), BasicConsumeOk)

    def refuse(self: object, key: str, wire: bytes, header_len: int) -> None:
        raise DiskFull("no room for copies")

    monkeypatch.setattr("leveret.protocols.amqp.channel.Channel.send_trace", refuse)
    with caplog.at_level(logging.WARNING, "leveret"):
        client.publish(body=b"m")
    assert [each.body for each in client.received()] == [b"m"]
    assert keys(watcher) == []
    assert "message could not be traced" in caplog.text


def test_the_firehose_stays_on_after_a_restart(tmp_path: Any) -> None:
    world = World(path=str(tmp_path / "data"))
    trace(world, True)
    world.close()
    world = World(path=str(tmp_path / "data"))
    assert world.core.topology.vhost("/").firehose.on
    world.close()
