"""The connection of the AMQP client without a socket, on a broker in memory; and what hostile servers say to it."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.client.amqp.channels import Call, Pending, Publish
from leveret.client.amqp.connection import ClientConnection
from leveret.client.amqp.outbox import Outbox, publish_method
from leveret.client.amqp.receiving import Get, ReceiveChannel
from leveret.client.amqp.servers import AmqpServer, ReconnectPlan, servers_of
from leveret.client.amqp.traffic import ClientTraffic
from leveret.core import errors
from leveret.core.errors import InvalidArgument, LeveretError
from leveret.core.properties import Properties, content
from leveret.protocols.amqp.connection import AmqpConnection
from leveret.pure.traffic import ClientTraffic as PureTraffic
from leveret.runtime.outgoing import Outgoing
from leveret.wire import methods
from leveret.wire.codec import encode
from leveret.wire.frames import FrameWriter
from leveret.wire.replies import ProtocolError
from tests.protocols.amqp.client import LOCAL, World

SERVER = AmqpServer("127.0.0.1", 5672, "guest", "guest", "/", None)
OUTBOX = Outbox()


class Pair:
    """A client's connection and the server's end of it; bytes go from one to the other when `run` is called."""

    def __init__(self, world: World, **options: Any) -> None:
        self.world = world
        self.client = ClientConnection(ReconnectPlan([SERVER], 6), 20, **{"idempotent": True, **options})
        self.server: AmqpConnection | None = None
        self.connect()

    def connect(self) -> None:
        self.server = self.world.connect(LOCAL)
        self.to_server(self.client.begin(0))
        self.run()

    def to_server(self, data: bytes) -> None:
        assert self.server is not None
        self.world.hub.receive(self.server, data)
        self.world.work()

    def run(self) -> None:
        """Until both have nothing to say."""
        assert self.server is not None
        while True:
            self.world.work()
            told, asked = self.server.outlet.take_all(), self.client.take(0)
            if not told and not asked:
                return
            if told:
                self.client.receive(told, 0)
            if asked:
                self.to_server(asked)

    def lose(self) -> None:
        """The socket breaks."""
        assert self.server is not None
        self.world.hub.lost(self.server)
        self.client.lost(errors.Unreachable("it broke"))

    def call(self, method: methods.Method, again: bool = True) -> Pending:
        pending = Pending()
        self.client.calls.add(Call(method, pending, again))
        return pending

    def publish(self, *bodies: bytes, exchange: str = "", key: str = "q", **options: Any) -> Publish:
        publish = OUTBOX.one(publish_method(exchange, key), b"", options)  # type: ignore[arg-type]
        publish.bodies[:] = bodies
        OUTBOX.numbers(len(bodies))
        publish.pending = Pending()
        self.client.publisher.add(publish)
        return publish

    def get(self, count: int, channel: ReceiveChannel | None = None) -> tuple[ReceiveChannel, Pending]:
        channel, pending = channel or self.client.receiver("q"), Pending()
        channel.get(Get(count, pending))
        self.run()
        return channel, pending


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    made.broker.queue("q")
    yield made
    made.close()


@pytest.fixture
def pair(world: World) -> Pair:
    return Pair(world)


def bodies(found: Pending) -> list[bytes]:
    assert found.error is None
    return [each.body for each in found.result]


def test_calls_are_answered_in_turn_and_the_one_that_is_refused_takes_no_other_along(pair: Pair) -> None:
    declared, refused = (
        pair.call(methods.QueueDeclare("new", durable=True)),
        pair.call(methods.QueueDeclare("no", True)),
    )
    again = pair.call(methods.QueueDeclare("new", passive=True))
    pair.run()
    assert declared.result.queue == again.result.queue == "new"
    assert isinstance(refused.error, errors.QueueNotFound)


def test_many_publishes_are_written_before_the_first_is_confirmed(pair: Pair) -> None:
    sent = [pair.publish(b"%d" % number) for number in range(50)]
    assert not any(each.pending.done for each in sent)
    pair.run()
    assert all(each.pending.done and each.pending.error is None for each in sent)
    assert bodies(pair.get(60)[1]) == [b"%d" % number for number in range(50)]


def test_what_no_queue_gets_is_found_among_many(pair: Pair) -> None:
    good, lost, own = (
        pair.publish(b"1", b"2"),
        pair.publish(b"3", key="no"),
        pair.publish(b"4", key="no", properties={"message_id": "mine"}),
    )
    pair.run()
    assert [each.pending.done for each in (good, lost, own)] == [True] * 3
    assert good.outcome is None
    assert lost.outcome is not None
    assert own.outcome is not None
    assert lost.outcome.returned == own.outcome.returned == {0: "NO_ROUTE"}


def test_a_publish_that_closes_the_channel_is_found_by_trying_one_after_the_other(pair: Pair) -> None:
    sent = [pair.publish(b"%d" % number, exchange="no" if number == 3 else "") for number in range(6)]
    pair.run()
    assert [number for number, each in enumerate(sent) if each.pending.error is not None] == [3]
    assert isinstance(sent[3].pending.error, errors.ExchangeNotFound)
    assert {b"0", b"1", b"2", b"4", b"5"} == set(bodies(pair.get(100)[1]))
    later = pair.publish(b"6")
    pair.run()
    assert later.pending.result is later


def test_what_a_full_queue_refuses_is_told_apart(pair: Pair) -> None:
    arguments = {"x-max-length": 2, "x-overflow": "reject-publish"}
    pair.call(methods.QueueDeclare("small", durable=True, arguments=arguments))
    pair.run()
    sent = pair.publish(b"1", b"2", b"3", b"4", key="small")
    pair.run()
    assert sent.outcome is not None
    assert sent.outcome.refused == [2, 3]
    assert OUTBOX.ids(sent)[2:] == [None, None]


def test_what_was_not_confirmed_is_published_again_in_its_order(pair: Pair) -> None:
    sent = [pair.publish(b"1"), pair.publish(b"2", b"3")]
    call, pushed = pair.call(methods.QueueDeclare("new")), pair.client.receiver("q")
    purge = pair.call(methods.QueuePurge("q"), again=False)
    pair.client.take(0)  # is lost on its way
    pair.lose()
    assert pair.client.wanted
    sent.append(pair.publish(b"4"))
    pushed.consume(10)
    pair.connect()
    assert all(each.pending.result is each for each in sent)
    assert call.result.queue == "new"
    assert purge.done
    assert [each.body for each in pushed.take(9)] == [b"1", b"2", b"3", b"4"]


def test_a_call_that_may_not_be_asked_twice_fails_with_the_connection(pair: Pair) -> None:
    purge = pair.call(methods.QueuePurge("q"), again=False)
    pair.client.take(0)
    pair.lose()
    assert "may have been done" in str(purge.error)


def test_without_idempotent_nothing_is_published_twice(world: World) -> None:
    pair = Pair(world, idempotent=False)
    sent = pair.publish(b"1")
    pair.client.take(0)
    pair.lose()
    later = pair.publish(b"2")
    pair.connect()
    assert isinstance(sent.pending.error, errors.Unreachable)
    assert later.pending.result is later
    assert bodies(pair.get(5)[1]) == [b"2"]


def test_acks_of_neighbours_are_one_frame(pair: Pair, world: World) -> None:
    pair.publish(*[b"x"] * 10)
    pair.run()
    channel, found = pair.get(10)
    tags = [each.tag for each in found.result]
    for tag in (*tags[:6], tags[8]):
        channel.ack(tag, channel.epoch)
    written = pair.client.take(0)
    assert written.count(b"\0\x3c\0\x50") == 2
    pair.to_server(written)
    assert world.broker.queue("q").stats().leased == 3
    with pytest.raises(errors.InvalidReceipt, match="settled"):
        channel.ack(tags[0], channel.epoch)
    channel.refuse(tags[6], channel.epoch, True)
    pair.lose()
    with pytest.raises(errors.InvalidReceipt, match="connection"):
        channel.ack(tags[7], channel.epoch - 1)


def test_a_consumer_gives_back_what_was_not_taken(pair: Pair, world: World) -> None:
    pair.publish(b"1", b"2", b"3")
    channel = pair.client.receiver("q")
    channel.consume(3)
    pair.run()
    (first,) = channel.take(1)
    channel.end()
    pair.run()
    assert channel.number in pair.client.channels
    channel.ack(first.tag, channel.epoch)
    pair.run()
    assert channel.number not in pair.client.channels
    stats = world.broker.queue("q").stats()
    assert (stats.ready, stats.leased, stats.backing_off) == (2, 0, 0)


def test_a_consumer_whose_queue_goes_is_told(pair: Pair, world: World) -> None:
    channel = pair.client.receiver("q")
    channel.consume(3)
    pair.run()
    world.broker.queue("q").delete()
    pair.run()
    with pytest.raises(errors.QueueNotFound, match="deleted"):
        channel.take(1)


def test_a_login_that_is_refused_ends_all_that_waits(world: World) -> None:
    plan = ReconnectPlan([SERVER._replace(password="wrong")], 6)
    client = ClientConnection(plan, 20, True)
    server, pending = world.connect(LOCAL), Pending()
    client.calls.add(Call(methods.QueueDeclare("q"), pending, True))
    world.hub.receive(server, client.begin(0))
    client.receive(server.outlet.take_all(), 0)
    world.hub.receive(server, client.take(0))
    world.work()
    with pytest.raises(errors.AccessRefused, match="name a user") as refused:
        client.receive(server.outlet.take_all(), 0)
    client.lost(refused.value)
    assert pending.error is refused.value


def test_publishes_wait_while_the_broker_is_blocked(pair: Pair) -> None:
    writer = FrameWriter()
    writer.method(0, encode(methods.ConnectionBlocked("low on disk")))
    pair.client.receive(writer.take(), 0)
    sent = pair.publish(b"1")
    pair.run()
    assert not sent.pending.done
    assert "low on disk" in str(pair.client.explain(30))
    writer.method(0, encode(methods.ConnectionUnblocked()))
    pair.client.receive(writer.take(), 0)
    pair.run()
    assert sent.pending.done


def test_a_server_without_signs_of_life_is_given_up(pair: Pair) -> None:
    assert pair.client.tick(9_000) == 10_000
    assert pair.client.take(9_000) == b""
    pair.client.tick(10_000)
    assert pair.client.take(10_000) == b"\x08\0\0\0\0\0\0\xce"
    with pytest.raises(errors.Unreachable, match="no sign of life for 40 s"):
        pair.client.tick(40_000)


# URLs


def test_a_url_names_several_servers_a_user_and_a_vhost() -> None:
    found = servers_of("amqp://a:p%40@one,two:5673,[::1]/v%2F1", None, None, None)
    assert [(each.host, each.port) for each in found] == [("one", 5672), ("two", 5673), ("::1", 5672)]
    assert {(each.user, each.password, each.vhost) for each in found} == {("a", "p@", "v/1")}
    found = servers_of("amqp://one/,amqp://two", "token", None, "other")
    assert [(each.host, each.password, each.vhost) for each in found] == [
        ("one", "token", "other"),
        ("two", "token", "other"),
    ]


@pytest.mark.parametrize(
    "url", ["amqp://", "amqp://a:x/", "amqp://a/b/c", "amqp:a", "amqp://a?heartbeat=1", "amqp://a,,b"]
)
def test_urls_that_name_no_server_are_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="AMQP server"):
        servers_of(url, None, None, None)


def test_more_servers_than_can_be_tried_in_time_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="65 servers are too many"):
        servers_of("amqp://" + ",".join(["a"] * 65), None, None, None)


def test_other_servers_are_tried_at_once_and_the_same_one_later() -> None:
    plan = ReconnectPlan([SERVER, SERVER._replace(port=1)], 2)
    delays = []
    for _ in range(4):
        delays.append(plan.delay_s)
        plan.failed(errors.Unreachable("no"))
    assert delays[:2] == [0, 0]
    assert 0 < delays[2] < 1
    assert plan.hopeless
    plan.succeeded()
    assert not plan.hopeless
    assert plan.delay_s == 0


# Hostile servers


def frames(*pieces: tuple[int, methods.Method | tuple[bytes, int]]) -> bytes:
    """Methods and contents, each with its channel; a content belongs to the method before."""
    writer = FrameWriter()
    for number, piece in pieces:
        if isinstance(piece, methods.Method):
            writer.method(number, encode(piece))
    return writer.take()


def delivered(channel: int, tag: int, body: bytes, tell_bytes: int | None = None) -> bytes:
    writer = FrameWriter()
    wire, header_len = content(Properties(), body)
    if tell_bytes is not None:
        wire = wire[:4] + tell_bytes.to_bytes(8) + wire[12:]
    writer.content(channel, encode(methods.BasicDeliver("leveret", tag)), wire, header_len)
    return writer.take()


HOSTILE = {
    "a method on a channel that is not open": (frames((9, methods.BasicQosOk())), "channel 9"),
    "an answer to nothing": (frames((1, methods.QueueDeclareOk())), "unasked"),
    "a second login": (frames((0, methods.ConnectionStart())), "out of order"),
    "a confirm of what was not published": (frames((1, methods.BasicAck(7))), "a confirm of message 7"),
    "a message nobody asked for": (delivered(1, 1, b"x"), "where none is received"),
    "a message of any size": (delivered(1, 1, b"", 1 << 62), "this client takes"),
    "a message longer than it says": (delivered(1, 1, b"xyz", 1), "longer than"),
    "a frame of any size": (b"\x01\0\0\xff\xff\xff\xff", "frame of"),
    "a method inside of a message": (delivered(1, 1, b"x", 9) + frames((1, methods.BasicQosOk())), "content body"),
    "no frame at all": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "frame"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_server_may_not_say_ends_the_connection(pair: Pair, name: str) -> None:
    data, words = HOSTILE[name]
    pair.publish(b"1")
    pair.run()
    with pytest.raises(ProtocolError, match=words):
        pair.client.receive(data, 0)


def test_more_messages_than_were_asked_for_end_the_connection(pair: Pair) -> None:
    channel = pair.client.receiver("q")
    channel.consume(2)
    pair.run()
    with pytest.raises(ProtocolError, match="more than 2 messages"):
        pair.client.receive(b"".join(delivered(channel.number, tag, b"x") for tag in (1, 2, 3)), 0)


def test_unfinished_messages_of_all_channels_share_a_limit() -> None:
    for kind in (ClientTraffic, PureTraffic):
        traffic = kind(1_000)
        traffic.tune(4_096, 100)
        traffic.receive(delivered(1, 1, b"x" * 600, 900))
        with pytest.raises(ProtocolError, match="1200 bytes of unfinished"):
            traffic.receive(delivered(2, 1, b"x" * 600, 900))


def told(traffic: Any, data: bytes, size: int) -> list[object]:
    """What is made of bytes that come in pieces, and how it ends."""
    found: list[object] = []
    try:
        for at in range(0, len(data), size):
            for event in traffic.receive(data[at : at + size]):
                names = ("channel", "kind", "tag", "redelivered", "method", "header", "body")
                found.append(event if isinstance(event, tuple) else [getattr(event, name) for name in names])
    except LeveretError as error:
        found.append(type(error))
    return [*found, traffic.confirmed, sorted(traffic.refused)]


CORPUS = [
    *(data for data, _ in HOSTILE.values()),
    delivered(3, 5, b"y" * 9_000),
    frames(
        (1, methods.BasicAck(2)),
        (1, methods.BasicNack(4, True)),
        (1, methods.BasicAck(3)),
        (1, methods.BasicAck(0, True)),
    ),
    b"\x08\0\0\0\0\0\0\xce",
]


@given(
    pieces=st.lists(st.sampled_from(CORPUS), min_size=1, max_size=4),
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=2),
    size=st.sampled_from([1, 7, 4_096]),
)
def test_random_bytes_mean_the_same_to_both_readers_and_raise_nothing_else(
    pieces: list[bytes], edits: list[tuple[int, int]], size: int
) -> None:
    data = bytearray(b"".join(pieces))
    for position, value in edits:
        data[position % len(data)] = value
    made = []
    for kind in (ClientTraffic, PureTraffic):
        traffic = kind(100_000)
        traffic.tune(131_072, 10)
        traffic.begin_confirms(1)
        traffic.publish(1, b"m", b"h" * 14, -1, 0, [b""] * 9)
        made.append(told(traffic, bytes(data), size))
    assert made[0] == made[1]


@given(data=st.binary(max_size=200))
def test_random_bytes_to_a_connection(data: bytes) -> None:
    client = ClientConnection(ReconnectPlan([SERVER], 6), 20, True)
    client.begin(0)
    start = frames((0, methods.ConnectionStart(mechanisms=b"PLAIN")), (0, methods.ConnectionTune(9, 4_096, 1)))
    client.receive(start + frames((0, methods.ConnectionOpenOk())), 0)
    try:
        client.receive(data, 0)
    except LeveretError:
        assert client.traffic.pending_bytes >= 0


@given(bodies=st.lists(st.binary(max_size=10_000), max_size=3), number=st.integers(0, 2**48 - 9), at=st.booleans())
def test_publishes_are_the_same_bytes_in_both(bodies: list[bytes], number: int, at: bool) -> None:
    made = []
    for kind in (ClientTraffic, PureTraffic):
        traffic = kind(1_000)
        traffic.tune(4_096, 100)
        traffic.begin_confirms(1)
        publish = Outbox()._template(Outgoing(b"", properties={"correlation_id": "c", "type": "t"}), "text/plain")
        header = publish.header[: publish.number_at - 12] + b"0" * 12 + publish.header[publish.number_at :]
        traffic.publish(1, b"method", header, publish.number_at if at else -1, number, bodies)
        traffic.heartbeat()
        traffic.write(2, b"other")
        assert traffic.published == len(bodies)
        made.append(traffic.take())
        assert traffic.pending_bytes == 0
    assert made[0] == made[1]
