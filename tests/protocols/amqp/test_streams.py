"""Streams over AMQP: what is refused and how, where consumers start, credit, filters, partitions, de-duplication."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from leveret.core.properties import Properties
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
)
from tests.protocols.amqp.client import Client, Received, World

WHERE = "queue 's' in vhost '/'"


@pytest.fixture(params=["memory", "files"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(path=str(tmp_path / "data") if request.param == "files" else None)
    yield made
    made.close()


@pytest.fixture
def client(world: World) -> Client:
    return world.client()


def declare(client: Client, **arguments: Any) -> QueueDeclareOk:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    return client.call(QueueDeclare("s", durable=True, arguments={"x-queue-type": "stream", **given}), QueueDeclareOk)


def publish(client: Client, *bodies: str, key: str = "s", exchange: str = "", **headers: Any) -> None:
    """Publish, and wait until it is durable."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    client.call(ConfirmSelect(), ConfirmSelectOk)
    for body in bodies:
        client.send_content(BasicPublish(exchange, key), Properties(headers=given or None), body.encode())
        client.next(BasicAck)


def consume(client: Client, prefetch: int = 100, tag: str = "c", **arguments: Any) -> None:
    given = {name.replace("_", "-"): value for name, value in arguments.items()}
    client.call(BasicQos(prefetch_count=prefetch), BasicQosOk)
    client.call(BasicConsume("s", tag, arguments=given), BasicConsumeOk)


def deliveries(client: Client) -> list[Received]:
    return [each for each in client.received() if isinstance(each.method, BasicDeliver)]


def headers_of(delivery: Received) -> dict[str, Any]:
    assert delivery.properties is not None
    return delivery.properties.headers or {}


def bodies(client: Client) -> list[str]:
    return [each.body.decode() for each in deliveries(client)]


def refused(client: Client, method: Method) -> str:
    client.send(method)
    return str(client.next(ChannelClose).reply_text)


def ended(client: Client, method: Method) -> str:
    client.send(method)
    return str(client.next(ConnectionClose).reply_text)


# What is refused


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        ({"durable": False}, f"invalid property 'non-durable' for {WHERE}"),
        ({"auto_delete": True}, f"invalid property 'auto-delete' for {WHERE}"),
        ({"exclusive": True}, f"invalid property 'exclusive-owner' for {WHERE}"),
    ],
)
def test_a_stream_lasts(client: Client, flags: dict[str, bool], text: str) -> None:
    method = QueueDeclare("s", **{"durable": True, **flags}, arguments={"x-queue-type": "stream"})
    assert refused(client, method) == f"PRECONDITION_FAILED - {text}"


def test_a_stream_has_a_name(client: Client) -> None:
    assert refused(client, QueueDeclare("", durable=True, arguments={"x-queue-type": "stream"})) == (
        "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_stream_queue"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-expires", 1000),
        ("x-message-ttl", 5),
        ("x-max-length", 5),
        ("x-max-priority", 5),
        ("x-overflow", "drop-head"),
    ],
)
def test_arguments_of_queues_are_refused(client: Client, name: str, value: object) -> None:
    method = QueueDeclare("s", durable=True, arguments={"x-queue-type": "stream", name: value})
    assert refused(client, method) == (
        f"PRECONDITION_FAILED - invalid arg '{name}' for {WHERE} of queue type rabbit_stream_queue"
    )


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("x-max-age", "7days", "invalid_max_age"),
        ("x-max-age", "0s", "invalid_max_age"),
        ("x-max-age", 5, "{unacceptable_type,signedint}"),
        ("x-stream-max-segment-size-bytes", -1, "{value_negative,-1}"),
        ("x-partitions", 1025, "{value_too_large,1025}"),
    ],
)
def test_bad_arguments_are_refused(client: Client, name: str, value: object, why: str) -> None:
    method = QueueDeclare("s", durable=True, arguments={"x-queue-type": "stream", name: value})
    assert refused(client, method) == f"PRECONDITION_FAILED - invalid arg '{name}' for {WHERE}: {why}"


def test_a_consumer_needs_a_prefetch(client: Client) -> None:
    declare(client)
    assert refused(client, BasicConsume("s")) == (
        f"PRECONDITION_FAILED - consumer prefetch count is not set for stream {WHERE}"
    )


def test_a_consumer_acknowledges(client: Client) -> None:
    declare(client)
    client.call(BasicQos(prefetch_count=1), BasicQosOk)
    assert ended(client, BasicConsume("s", no_ack=True)) == (
        f"NOT_IMPLEMENTED - automatic acknowledgement not supported by stream {WHERE}"
    )


def test_a_stream_does_not_share_a_prefetch(client: Client) -> None:
    declare(client)
    client.call(BasicQos(prefetch_count=1), BasicQosOk)
    client.call(BasicQos(prefetch_count=1, global_qos=True), BasicQosOk)
    assert ended(client, BasicConsume("s")) == f"NOT_IMPLEMENTED - {WHERE} does not support global qos"


def test_nothing_is_taken_from_a_stream_one_by_one(client: Client) -> None:
    declare(client)
    assert ended(client, BasicGet("s")) == f"NOT_IMPLEMENTED - basic.get not supported by stream queues {WHERE}"


def test_a_stream_is_not_purged(client: Client) -> None:
    declare(client)
    assert ended(client, QueuePurge("s")) == f"NOT_IMPLEMENTED - queue.purge not supported by stream queues {WHERE}"


def test_a_stream_is_deleted_under_a_condition(client: Client) -> None:
    declare(client)
    consume(client)
    assert refused(client, QueueDelete("s", if_unused=True)) == f"PRECONDITION_FAILED - {WHERE} in use"
    client.send(ChannelCloseOk())
    client.open_channel(1)
    publish(client, "a")
    assert refused(client, QueueDelete("s", if_empty=True)) == f"PRECONDITION_FAILED - {WHERE} not empty"
    client.send(ChannelCloseOk())
    client.open_channel(1)
    assert client.call(QueueDelete("s", if_unused=True), QueueDeleteOk) == QueueDeleteOk(0)


def test_a_segment_that_is_too_large_is_refused(client: Client) -> None:
    arguments = {"x-queue-type": "stream", "x-stream-max-segment-size-bytes": 3_000_000_001}
    assert refused(client, QueueDeclare("s", durable=True, arguments=arguments)) == (
        "PRECONDITION_FAILED - Exceeded max value for x-stream-max-segment-size-bytes"
    )


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("x-stream-offset", "yesterday"),
        ("x-stream-offset", 1.5),
        ("x-stream-offset", True),
        ("x-stream-offset", {"a": 1}),
        ("x-stream-filter", 5),
        ("x-stream-filter", ["a"] * 257),
        ("x-stream-match-unfiltered", "yes"),
        ("x-stream-partition", 1),
        ("x-stream-offsets", "first"),
        ("x-stream-offsets", [0, 0]),
        ("x-stream-offsets", ["soon"]),
        ("x-priority", 5),
    ],
)
def test_bad_arguments_of_a_consumer_are_refused(client: Client, argument: str, value: object) -> None:
    declare(client)
    client.call(BasicQos(prefetch_count=1), BasicQosOk)
    assert f"invalid arg '{argument}' for {WHERE}" in refused(client, BasicConsume("s", arguments={argument: value}))


def test_a_queue_refuses_the_arguments_of_streams(client: Client) -> None:
    client.call(QueueDeclare("s"), QueueDeclareOk)
    assert refused(client, BasicConsume("s", arguments={"x-stream-offset": "first"})) == (
        f"PRECONDITION_FAILED - invalid arg 'x-stream-offset' for {WHERE} of queue type rabbit_classic_queue"
    )


# Reading


def test_what_is_published_is_read_by_all_and_again(client: Client) -> None:
    assert declare(client) == QueueDeclareOk("s", 0, 0)
    publish(client, "a", "b", "c")
    assert declare(client) == QueueDeclareOk("s", 3, 0)
    for tag in ("one", "two"):
        consume(client, tag=tag, x_stream_offset="first")
        found = deliveries(client)
        assert [each.body for each in found] == [b"a", b"b", b"c"]
        assert [headers_of(each) for each in found] == [{"x-stream-offset": number} for number in range(3)]
        assert not any(each.method.redelivered for each in found)
    assert declare(client) == QueueDeclareOk("s", 3, 2)


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        ("first", ["a", "b", "c"]),
        ("last", ["c"]),
        ("next", []),
        (None, []),
        (1, ["b", "c"]),
        ("1h", ["a", "b", "c"]),
        (datetime(2020, 1, 1, tzinfo=UTC), ["a", "b", "c"]),
        (datetime(2090, 1, 1, tzinfo=UTC), []),
    ],
)
def test_a_consumer_starts_where_it_wants(client: Client, offset: object, expected: list[str]) -> None:
    declare(client)
    publish(client, "a", "b", "c")
    asked: dict[str, Any] = {} if offset is None else {"x_stream_offset": offset}
    consume(client, **asked)
    assert bodies(client) == expected
    publish(client, "d")
    assert bodies(client) == ["d"]


def test_a_place_that_is_yet_to_come_is_waited_for(client: Client) -> None:
    declare(client)
    publish(client, "a")
    consume(client, x_stream_offset=3)
    publish(client, "b", "c")
    assert bodies(client) == []
    publish(client, "d")
    assert bodies(client) == ["d"]


def test_a_record_does_not_say_where_it_was_read_before(client: Client) -> None:
    declare(client)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.send_content(BasicPublish("", "s"), Properties(headers={"a": 1, "x-stream-offset": 77}), b"m")
    client.next(BasicAck)
    consume(client, x_stream_offset="first")
    (found,) = deliveries(client)
    assert (headers_of(found), found.body) == ({"a": 1, "x-stream-offset": 0}, b"m")


def test_the_properties_stay_as_they_were(client: Client) -> None:
    declare(client)
    sent = [
        Properties(),
        Properties(content_type="text/plain", content_encoding="utf-8", headers={"a": 1, "b": "x"}, message_id="m"),
        Properties(content_type="text/plain", delivery_mode=2, correlation_id="c", type="t"),
        Properties(headers={}, timestamp=5),
    ]
    client.call(ConfirmSelect(), ConfirmSelectOk)
    sizes = [10, 10, 10, 200_000]  # the last one takes several frames
    for properties, size in zip(sent, sizes, strict=True):
        client.send_content(BasicPublish("", "s"), properties, b"x" * size)
        client.next(BasicAck)
    consume(client, x_stream_offset="first")
    for number, (properties, each) in enumerate(zip(sent, deliveries(client), strict=True)):
        properties.headers = {**(properties.headers or {}), "x-stream-offset": number}
        assert each.properties == properties
        assert each.body == b"x" * sizes[number]


def test_an_acknowledgement_is_credit_however_it_is_said(client: Client) -> None:
    declare(client)
    publish(client, *"abcdefgh")
    consume(client, prefetch=2, x_stream_offset="first")
    assert bodies(client) == ["a", "b"]
    client.send(BasicAck(1))
    assert bodies(client) == ["c"]
    client.send(BasicNack(2, requeue=True))
    client.send(BasicNack(3, requeue=False))
    assert bodies(client) == ["d", "e"]
    client.send(BasicAck(5, multiple=True))
    assert bodies(client) == ["f", "g"]
    client.call(BasicRecover(True), BasicRecoverOk)
    assert bodies(client) == ["h"]


def test_a_cancelled_consumer_may_still_acknowledge(client: Client) -> None:
    declare(client)
    publish(client, "a", "b")
    consume(client, prefetch=1, x_stream_offset="first")
    assert bodies(client) == ["a"]
    client.call(BasicCancel("c"), BasicCancelOk)
    client.send(BasicAck(1))
    assert bodies(client) == []
    consume(client, x_stream_offset="first")
    assert bodies(client) == ["a", "b"]


def test_filters_choose_records(client: Client) -> None:
    declare(client)
    publish(client, "de 1", "de 2", x_stream_filter_value="de")
    publish(client, "fr", x_stream_filter_value="fr")
    publish(client, "none")
    consume(client, tag="one", x_stream_offset="first", x_stream_filter="de")
    assert bodies(client) == ["de 1", "de 2"]
    consume(client, tag="two", x_stream_offset="first", x_stream_filter=["fr"], x_stream_match_unfiltered=True)
    assert bodies(client) == ["fr", "none"]


def test_single_active_consumer(client: Client) -> None:
    declare(client, x_single_active_consumer=True)
    publish(client, "a")
    consume(client, tag="one", x_stream_offset="first")
    assert bodies(client) == ["a"]
    consume(client, tag="two", x_stream_offset="first")
    assert bodies(client) == []
    client.call(BasicCancel("one"), BasicCancelOk)
    assert bodies(client) == ["a"]
    publish(client, "b")
    assert bodies(client) == ["b"]


def test_each_partition_may_be_read_from_a_place_of_its_own(client: Client) -> None:
    declare(client, x_partitions=2)
    for number in range(20):
        publish(client, str(number), x_partition_key=f"user {number}")
    consume(client, x_stream_offsets=["next", 3])
    found = [headers_of(each) for each in deliveries(client)]
    assert {headers["x-stream-partition"] for headers in found} == {1}
    assert found[0]["x-stream-offset"] == 3


def test_partitions_are_read_together_or_alone(client: Client) -> None:
    declare(client, x_partitions=4)
    for number in range(20):
        publish(client, str(number), x_partition_key=f"user {number % 5}")
    consume(client, tag="all", x_stream_offset="first")
    found = deliveries(client)
    assert sorted(int(each.body) for each in found) == list(range(20))
    places = {(headers_of(each)["x-stream-partition"], headers_of(each)["x-stream-offset"]) for each in found}
    assert len(places) == 20
    for partition in range(4):
        consume(client, tag=str(partition), x_stream_offset="first", x_stream_partition=partition)
        offsets = [headers_of(each)["x-stream-offset"] for each in deliveries(client)]
        assert offsets == sorted(offset for number, offset in places if number == partition)


def test_a_producer_does_not_publish_twice(client: Client) -> None:
    declare(client)
    publish(client, "a", x_producer="till", x_sequence=1)
    publish(client, "a", x_producer="till", x_sequence=1)
    publish(client, "b", x_producer="till", x_sequence=2)
    consume(client, x_stream_offset="first")
    assert bodies(client) == ["a", "b"]


def test_a_producer_without_a_number_is_refused(client: Client) -> None:
    declare(client)
    client.send_content(BasicPublish("", "s"), Properties(headers={"x-producer": "till"}), b"")
    assert "x-sequence" in client.next(ChannelClose).reply_text


def test_a_message_goes_to_queues_and_streams_alike(client: Client) -> None:
    declare(client)
    client.call(QueueDeclare("q", durable=True), QueueDeclareOk)
    with client.world.broker.runtime as core:
        for name in ("s", "q"):
            core.bind("/", "amq.fanout", name)
    publish(client, "both", exchange="amq.fanout", key="k")
    assert declare(client).message_count == 1
    assert client.call(QueueDeclare("q", passive=True), QueueDeclareOk).message_count == 1


def test_a_deleted_stream_cancels_its_consumers(client: Client) -> None:
    declare(client)
    publish(client, "a")
    consume(client, x_stream_offset="first")
    assert bodies(client) == ["a"]
    assert client.call(QueueDelete("s"), QueueDeleteOk) == QueueDeleteOk(0)
    assert client.next(BasicCancel).consumer_tag == "c"
    client.send(BasicAck(1))
    assert declare(client).message_count == 0


def test_a_consumer_that_does_not_read_costs_no_memory(world: World) -> None:
    client, slow = world.client(), world.client()
    declare(client)
    consume(slow, prefetch=65_535, x_stream_offset="first")
    slow.connection.outlet.paused = True
    publish(client, *["x" * 100_000] * 20)
    assert slow.connection.outlet.pending_bytes < 300_000


def test_a_consumer_that_is_behind_goes_on_at_the_oldest_record(world: World, client: Client) -> None:
    declare(client, x_max_length_bytes=4 << 10, x_stream_max_segment_size_bytes=1 << 10)
    consume(client, prefetch=1, x_stream_offset="first")
    publish(client, "0")
    assert bodies(client) == ["0"]
    for number in range(1, 100):
        publish(client, f"{number} " + "." * 100)
    world.broker.runtime.streams.retain(world.clock.now_ms())
    first = world.broker.stream("s").earliest()
    offsets = []
    for tag in range(1, 100):
        client.send(BasicAck(tag))
        offsets += [headers_of(each)["x-stream-offset"] for each in deliveries(client)]
    assert first > 50
    # It reads to the end of the file that it had open, or of the piece that it had read, and then the oldest one.
    assert offsets == sorted(set(offsets))
    assert set(range(first, 100)) <= set(offsets)
    assert len(offsets) < 99


def test_a_paused_stream_waits(world: World, client: Client) -> None:
    declare(client)
    consume(client, x_stream_offset="first")
    with world.broker.runtime as core:
        core.pause_queue(core.topology.vhost("/").queues["s"], True)
    publish(client, "a")
    assert bodies(client) == []
    with world.broker.runtime as core:
        core.pause_queue(core.topology.vhost("/").queues["s"], False)
    assert bodies(client) == ["a"]


def test_nobody_waits_for_a_slow_disk_under_the_lock(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    client = world.client()
    declare(client, x_stream_max_segment_size_bytes=1 << 10)
    publish(client, *[f"{number} " + "." * 400 for number in range(20)])
    slow: list[tuple[Callable[[], None], Callable[[None], None]]] = []
    monkeypatch.setattr(world.hub, "in_thread", lambda job, done: slow.append((job, done)))
    (recorder,) = world.broker.runtime.streams
    monkeypatch.setattr(type(recorder.logs[0].disk), "is_cached", lambda *place: False)
    consume(client, x_stream_offset="first")
    found = []
    while slow:
        assert bodies(client) == []
        (job, done), slow[:] = slow[0], slow[1:]
        done(job())
        found += bodies(client)
    assert [body.split()[0] for body in found] == [str(number) for number in range(20)]
