"""Messages over a channel: publish, confirm, return, consume, get, settle."""

import pytest

from leveret.core.properties import Properties
from leveret.core.tables import Long
from leveret.wire.codec import encode
from leveret.wire.frames import BODY
from leveret.wire.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    QueueDelete,
    QueueDeleteOk,
)
from tests.protocols.amqp.client import Client, World


def consume(client: Client, queue: str = "q", tag: str = "c", **options: object) -> None:
    client.send(BasicConsume(queue, tag, **options))  # type: ignore[arg-type]
    assert client.next(BasicConsumeOk) == BasicConsumeOk(tag)


def tags(client: Client) -> list[int]:
    return [each.method.delivery_tag for each in client.received()]


def bodies(client: Client) -> list[bytes]:
    return [each.body for each in client.received() if isinstance(each.method, BasicDeliver)]


def test_what_is_published_is_delivered_as_it_was(client: Client) -> None:
    client.queue()
    consume(client)
    client.publish(body=b"hello", content_type="text/plain", headers={"a": 1}, delivery_mode=2)
    came = client.next_content(BasicDeliver)
    assert came.method == BasicDeliver("c", 1, False, "", "q")
    assert came.properties == Properties(content_type="text/plain", headers={"a": 1}, delivery_mode=2)
    assert came.body == b"hello"


def test_a_body_in_many_frames_arrives_whole(world: World) -> None:
    client = world.client(frame_max=4_096)
    client.queue()
    consume(client)
    body = bytes(range(256)) * 100
    client.publish(body=body)
    assert client.next_content(BasicDeliver).body == body


@pytest.mark.parametrize(
    ("size", "pieces"),
    [(0, []), (1, [1]), (4_088, [4_088]), (4_089, [4_088, 1]), (8_176, [4_088, 4_088]), (8_177, [4_088, 4_088, 1])],
)
def test_a_body_is_cut_at_exactly_what_a_frame_holds(world: World, size: int, pieces: list[int]) -> None:
    client = world.client(frame_max=4_096)
    client.queue()
    consume(client, no_ack=True)
    client.publish(body=bytes(size))
    client.reader.feed(client.connection.take_output())
    frames = [each for each in iter(client.reader.next_frame, None) if each is not None]
    assert [len(payload) for kind, _, payload in frames if kind == BODY] == pieces


def test_confirms_cover_all_publishes_of_a_read(client: Client) -> None:
    client.queue()
    assert client.call(ConfirmSelect(), ConfirmSelectOk) == ConfirmSelectOk()
    client.publish()
    assert client.next(BasicAck) == BasicAck(1, False)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("nowhere")
    assert client.next(BasicAck) == BasicAck(2, False)


def test_a_return_comes_before_its_confirm(client: Client) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("nowhere", b"back", mandatory=True, message_id="m")
    came = client.next_content(BasicReturn)
    assert came.method == BasicReturn(312, "NO_ROUTE", "", "nowhere")
    assert (came.body, came.properties) == (b"back", Properties(message_id="m"))
    assert client.next(BasicAck) == BasicAck(1, False)


def test_a_full_queue_that_rejects_gives_a_nack(client: Client) -> None:
    client.queue(arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish()
    assert client.next(BasicAck) == BasicAck(1, False)
    client.publish()
    assert client.next(BasicNack) == BasicNack(2, False)
    client.publish(headers={"x-group-id": "g"})
    assert client.next(BasicNack) == BasicNack(3, False)


def test_prefetch_is_for_consumers_that_start_afterwards(client: Client) -> None:
    client.queue()
    client.call(BasicQos(0, 2, False), BasicQosOk)
    consume(client)
    client.call(BasicQos(0, 1, False), BasicQosOk)
    for _ in range(3):
        client.publish()
    assert tags(client) == [1, 2]
    client.send(BasicAck(1))
    assert tags(client) == [3]


def test_global_prefetch_counts_all_consumers_of_a_channel(client: Client) -> None:
    client.queue("a")
    client.queue("b")
    client.call(BasicQos(0, 2, True), BasicQosOk)
    consume(client, "a", "ca")
    consume(client, "b", "cb")
    for _ in range(3):
        client.publish("a")
        client.publish("b")
    assert tags(client) == [1, 2]
    client.send(BasicAck(2, multiple=True))
    assert tags(client) == [3, 4]
    client.call(BasicQos(0, 0, True), BasicQosOk)
    assert tags(client) == [5, 6]


def test_get_and_deliveries_share_their_tags(client: Client) -> None:
    client.queue()
    for body in (b"1", b"2", b"3"):
        client.publish(body=body)
    client.send(BasicGet("q"))
    came = client.next_content(BasicGetOk)
    assert (came.method, came.body) == (BasicGetOk(1, False, "", "q", 2), b"1")
    client.send(BasicGet("q", no_ack=True))
    assert client.next(BasicGetOk).delivery_tag == 2
    consume(client)
    assert tags(client) == [3]
    client.send(BasicGet("q"))
    client.next(BasicGetEmpty)
    client.send(BasicAck(2))
    close = client.next(ChannelClose)
    assert close == ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 2", 60, 80)


def test_what_is_given_back_comes_again_marked(client: Client) -> None:
    client.queue()
    client.publish()
    consume(client)
    for method in (BasicNack(1, requeue=True), BasicReject(2, requeue=True)):
        client.next(BasicDeliver)
        client.send(method)
    assert client.next(BasicDeliver) == BasicDeliver("c", 3, True, "", "q")
    client.send(BasicReject(3, requeue=False))
    assert client.nothing()
    assert world_depth(client) == 0


def world_depth(client: Client) -> int:
    queue = client.world.core.topology.vhost("/").queue("q")
    return int(queue.depth + queue.leased)


def test_ack_of_all_is_tag_zero(client: Client) -> None:
    client.queue()
    consume(client)
    for _ in range(3):
        client.publish()
    assert tags(client) == [1, 2, 3]
    client.send(BasicAck(0, multiple=True))
    assert world_depth(client) == 0
    client.send(BasicAck(0, multiple=True))
    assert client.nothing()


@pytest.mark.parametrize("method", [BasicRecover(True), BasicRecoverAsync(True)])
def test_recover_delivers_again(client: Client, method: BasicRecover | BasicRecoverAsync) -> None:
    client.queue()
    consume(client)
    client.publish()
    client.next(BasicDeliver)
    client.send(method)
    if isinstance(method, BasicRecover):
        client.next(BasicRecoverOk)
    assert client.next(BasicDeliver) == BasicDeliver("c", 2, True, "", "q")


def test_cancel_is_answered_even_for_an_unknown_consumer(client: Client) -> None:
    client.queue()
    consume(client)
    assert client.call(BasicCancel("c"), BasicCancelOk) == BasicCancelOk("c")
    assert client.call(BasicCancel("c"), BasicCancelOk) == BasicCancelOk("c")
    client.publish()
    assert client.nothing()


def test_the_server_says_that_a_queue_was_deleted(world: World) -> None:
    client = world.client()
    client.queue()
    consume(client)
    client.open_channel(2)
    client.send(QueueDelete("q"), 2)
    assert client.next(BasicCancel, 1) == BasicCancel("c", nowait=True)
    assert client.next(QueueDeleteOk, 2) == QueueDeleteOk(0)
    silent = world.client(capabilities={})
    silent.queue("s")
    consume(silent, "s")
    silent.send(QueueDelete("s"))
    assert [type(each.method) for each in silent.received()] == [QueueDeleteOk]


@pytest.mark.parametrize("durable", [False, True])
def test_a_queue_is_said_to_be_deleted_before_its_consumer_is_cancelled(client: Client, durable: bool) -> None:
    client.queue(durable=durable)
    consume(client)
    client.send(QueueDelete("q"))
    assert [each.method for each in client.received()] == [QueueDeleteOk(0), BasicCancel("c", nowait=True)]


def test_a_quorum_queue_says_how_often_a_message_came_back(client: Client) -> None:
    client.queue(durable=True, arguments={"x-queue-type": "quorum"})
    client.publish()
    client.call(BasicGet("q"), BasicGetOk)
    client.send(BasicReject(1, True))
    client.send(BasicGet("q"))
    (again,) = client.received()
    assert again.properties is not None
    assert again.properties.headers == {"x-delivery-count": 1, "x-acquired-count": 1}
    # Typed languages cast it: RabbitMQ sends 64 bits.
    assert isinstance(again.properties.headers["x-delivery-count"], Long)


def test_consumer_priorities_go_first(world: World) -> None:
    low, high = world.client(), world.client()
    low.queue()
    consume(low)
    consume(high, arguments={"x-priority": 5})
    low.publish(body=b"1")
    assert (bodies(low), bodies(high)) == ([], [b"1"])


def test_closing_gives_back_in_order(world: World) -> None:
    first, second = world.client(), world.client()
    first.queue()
    consume(first)
    for body in (b"1", b"2", b"3"):
        first.publish(body=body)
    assert bodies(first) == [b"1", b"2", b"3"]
    consume(second)
    first.send(ConnectionClose(200, "bye"), 0)
    came = second.received()
    assert [(each.body, each.method.redelivered) for each in came] == [(b"1", True), (b"2", True), (b"3", True)]


def test_expired_messages_are_not_delivered(world: World) -> None:
    client = world.client()
    client.queue()
    client.publish(body=b"short", expiration="100")
    client.publish(body=b"long", expiration="1000")
    world.pass_ms(500)
    client.send(BasicGet("q"))
    assert client.next_content(BasicGetOk).body == b"long"


@pytest.mark.parametrize(
    ("expiration", "why"),
    [("abc", "no_integer"), ("12x", '{leftover_string,"x"}'), ("-1", "{value_negative,-1}"), ("", "no_integer")],
)
def test_a_bad_expiration_is_406(client: Client, expiration: str, why: str) -> None:
    client.publish(expiration=expiration)
    text = f"PRECONDITION_FAILED - invalid expiration '{expiration}': {why}"
    assert client.next(ChannelClose) == ChannelClose(406, text, 60, 40)


def test_somebody_else_cannot_be_named_as_the_sender(client: Client) -> None:
    client.publish(user_id="guest")
    client.publish(user_id="ann")
    text = "PRECONDITION_FAILED - user_id property set to 'ann' but authenticated user was 'guest'"
    assert client.next(ChannelClose) == ChannelClose(406, text, 60, 40)


def test_copies_go_to_each_queue_once_and_blind_ones_are_not_told(client: Client) -> None:
    for name in ("a", "b", "c"):
        client.queue(name)
        consume(client, name, name)
    client.publish("a", headers={"CC": ["a", "b"], "BCC": ["c"], "h": 1})
    came = client.received()
    assert [each.method.consumer_tag for each in came] == ["a", "b", "c"]
    assert {tuple(each.properties.headers or ()) for each in came if each.properties} == {("CC", "h")}


def test_copies_are_arrays_of_strings(client: Client) -> None:
    client.publish(headers={"CC": "a"})
    assert client.next(ChannelClose).reply_code == 406


def test_immediate_is_540(client: Client) -> None:
    client.send_content(BasicPublish("", "q", immediate=True), None, b"")
    assert client.next(ConnectionClose) == ConnectionClose(540, "NOT_IMPLEMENTED - immediate=true", 60, 40)


def test_a_duplicate_is_confirmed_and_not_stored(client: Client) -> None:
    client.queue()
    client.call(ConfirmSelect(), ConfirmSelectOk)
    for _ in range(2):
        client.publish(headers={"x-deduplication-id": "once"})
        assert isinstance(client.received()[0].method, BasicAck)
    assert world_depth(client) == 1


def test_a_publisher_cannot_make_up_deaths(client: Client) -> None:
    client.queue()
    consume(client)
    client.publish(headers={"x-death": [{"count": 7}], "x-first-death-queue": "a", "kept": True})
    properties = client.next_content(BasicDeliver).properties
    assert properties is not None
    assert properties.headers == {"kept": True}


def test_what_a_deleted_queue_had_delivered_may_still_be_settled(client: Client) -> None:
    client.queue()
    consume(client)
    client.publish()
    client.next(BasicDeliver)
    client.send(QueueDelete("q"))
    client.received()
    client.send(BasicAck(1))
    assert client.nothing()


def test_special_headers_do_not_change_the_types_of_others(client: Client) -> None:
    client.queue()
    consume(client)
    headers = bytes.fromhex("00000016") + b"\x01as\x00\x07" + b"\x0ax-group-idS\x00\x00\x00\x01g"
    header = bytes([0, 60, 0, 0]) + bytes(8) + bytes([0x20, 0]) + headers
    client.writer.content(1, encode(BasicPublish("", "q")), header, len(header))
    client.send_bytes(client.writer.take())
    assert headers in client.connection.take_output()


def test_routes_do_not_keep_queues_that_were_deleted(world: World, client: Client) -> None:
    for number in range(3):
        client.queue(f"q{number}")
        client.publish(f"q{number}")
    other = world.client()
    for number in range(3):
        other.call(QueueDelete(f"q{number}"), QueueDeleteOk)
    client.publish("nowhere")
    assert [route.queues for route in client.connection.routes.values()] == [[]]


def share_prefetch(client: Client, filled: dict[str, int]) -> None:
    """Set a prefetch of one for the channel, publish so many messages to each queue, and consume from all of them."""
    client.send(BasicQos(0, 1, True))
    for name, count in filled.items():
        client.queue(name)
        for _ in range(count):
            client.publish(name)
    client.received()
    for name in filled:
        client.send(BasicConsume(name, name))


def taken_in_turn(client: Client, count: int) -> dict[str, int]:
    """How many of so many deliveries each consumer got; each is acknowledged before the next one comes."""
    counts: dict[str, int] = {}
    for _ in range(count):
        (came,) = [each.method for each in client.received() if isinstance(each.method, BasicDeliver)]
        counts[came.consumer_tag] = counts.get(came.consumer_tag, 0) + 1
        client.send(BasicAck(came.delivery_tag))
    return counts


def test_queues_of_a_channel_get_equal_shares_of_its_prefetch(client: Client) -> None:
    share_prefetch(client, {"q": 50, "r": 50, "s": 50})
    assert taken_in_turn(client, 90) == {"q": 30, "r": 30, "s": 30}


def test_a_queue_without_messages_leaves_its_share_to_the_others_in_equal_parts(client: Client) -> None:
    share_prefetch(client, {"q": 50, "empty": 0, "r": 50, "s": 50})
    assert taken_in_turn(client, 90) == {"q": 30, "r": 30, "s": 30}


def test_a_consumer_without_acknowledgements_waits_for_the_prefetch_of_its_channel(client: Client) -> None:
    client.call(BasicQos(0, 1, True), BasicQosOk)
    client.queue("r")
    client.queue()
    consume(client)
    consume(client, "r", "all", no_ack=True)
    client.publish("r", b"1")
    client.publish("r", b"2")
    assert bodies(client) == [b"1", b"2"]
    client.publish(body=b"held")
    client.publish("r", b"3")
    assert bodies(client) == [b"held"]
    client.send(BasicAck(3))
    assert bodies(client) == [b"3"]


def test_what_recover_gives_to_another_consumer_leaves_room_in_the_channel(world: World, client: Client) -> None:
    client.call(BasicQos(0, 1, True), BasicQosOk)
    client.queue("r")
    client.queue()
    consume(client)
    consume(client, "r", "d")
    client.publish(body=b"q")
    client.publish("r", b"r")
    assert bodies(client) == [b"q"]
    other = world.client()
    consume(other, tag="other", arguments={"x-priority": 1})
    client.send(BasicRecover(True))
    assert bodies(other) == [b"q"]
    assert bodies(client) == [b"r"]
