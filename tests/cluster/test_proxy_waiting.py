"""Clients of a node while a shard has no owner: what is about that shard waits, and nothing else."""

from collections.abc import Callable

import pytest

from leveret.cluster.proxy.connection import UNHEARD_BYTES_MAX
from leveret.cluster.proxy.orphaned_deliveries import GRACE_MS
from leveret.core.properties import content
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
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
from tests.cluster.proxy_world import FrontWorld, place
from tests.cluster.takeover_world import TakeoverWorld, client_of, consume, publish, taken
from tests.protocols.amqp.client import Client

ONE, TWO = "q0", next(name for name in ("q1", "q2", "q3", "q4") if place(name) != place("q0"))
CLOSE = ConnectionClose(200, "bye", 0, 0)


@pytest.fixture
def client(world: FrontWorld) -> Client:
    """A client with a queue in each of two shards, and two channels; the first confirms."""
    client = world.client()
    for name in (ONE, TWO):
        client.call(QueueDeclare(name, durable=True), QueueDeclareOk)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.open_channel(2)
    return client


@pytest.fixture
def lose(world: FrontWorld, client: Client) -> Callable[[], None]:
    """Take the owner away from the shard of the first queue."""

    def lose() -> None:
        for shard_connection, proxied in list(world.proxied_clients.items()):
            if shard_connection.shard_id == place(ONE):
                proxied.abort()
        world.work()

    return lose


def depth(client: Client, name: str) -> int:
    """How many messages wait in a queue."""
    return client.call(QueueDeclare(name, passive=True), QueueDeclareOk, 2).message_count


def test_a_question_keeps_its_channel_only(world: FrontWorld, client: Client, lose: Callable[[], None]) -> None:
    lose()
    client.send(BasicGet(ONE))
    client.publish(TWO, body=b"for the other channel")
    assert client.nothing()
    client.call(BasicGet(TWO), BasicGetEmpty, 2)
    client.publish(TWO, body=b"of the other channel", channel=2)
    assert depth(client, TWO) == 1
    world.reattach()
    client.next(BasicGetEmpty, 1)
    assert client.next(BasicAck, 1) == BasicAck(1, False)
    assert depth(client, TWO) == 2


def test_what_waits_behind_a_question_keeps_its_order(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    client.publish(ONE, body=b"first")
    assert client.next(BasicAck) == BasicAck(1, False)
    lose()
    client.send(BasicGet(ONE, True))
    client.publish(ONE, body=b"second")
    client.send(BasicGet(ONE, True))
    client.publish(ONE, body=b"x" * 200_000)
    client.send(BasicGet(ONE, True))
    assert client.nothing()
    world.reattach()
    came = client.received()
    assert [each.body[:6] for each in came if isinstance(each.method, BasicGetOk)] == [b"first", b"second", b"xxxxxx"]
    assert [each.method.delivery_tag for each in came if isinstance(each.method, BasicAck)] == [2, 3]


def test_half_a_frame_of_another_channel_stays_in_its_place(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    lose()
    client.send(BasicGet(ONE))
    client.publish(TWO)
    client.writer.method(2, encode(BasicGet(TWO)))
    frame = client.writer.take()
    client.send_bytes(frame[:9])
    world.reattach()
    assert [type(each.method) for each in client.received()] == [BasicGetEmpty, BasicAck]
    client.send_bytes(frame[9:])
    client.next(BasicGetOk, 2)


def test_consumers_of_other_shards_go_on_on_the_same_channel(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    for name in (ONE, TWO):
        client.call(BasicConsume(name, f"of {name}"), BasicConsumeOk, 2)
    for name in (ONE, TWO):
        client.publish(name, channel=2)
    mine, other = (client.next(BasicDeliver, 2).delivery_tag for _ in range(2))
    lose()
    client.send(BasicAck(mine), 2)
    client.send(BasicAck(other), 2)
    queue = world.worlds[place(TWO)].core.topology.vhost("/").queues[TWO]
    assert queue.leased == 0
    client.publish(TWO, channel=2)
    assert client.next(BasicDeliver, 2).consumer_tag == f"of {TWO}"
    world.reattach()
    assert world.worlds[place(ONE)].core.topology.vhost("/").queues[ONE].leased == 0
    assert client.nothing()


def test_what_was_acknowledged_meanwhile_is_known_to_every_owner_after_that(takeover: TakeoverWorld) -> None:
    client = client_of(takeover)
    publish(client, b"one", b"two", b"three")
    consume(client, prefetch=3)
    tags = taken(client)
    takeover.lose()
    client.send(BasicAck(tags[b"one"]))
    takeover.freeze()
    takeover.reattach()
    client.send(BasicAck(tags[b"two"]))
    takeover.take_over()
    takeover.pass_ms(GRACE_MS)
    assert (takeover.leased, client.nothing()) == (1, True)
    client.send(BasicNack(tags[b"three"], False, True))
    assert client.next_content(BasicDeliver).body == b"three"


def test_publishes_wait_for_their_shard_and_others_are_confirmed(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    lose()
    client.publish(ONE, body=b"1")
    client.publish(TWO, body=b"2")
    client.publish(ONE, body=b"3")
    assert [each.method for each in client.received()] == [BasicAck(2, False)]
    assert client.connection.wants_input
    world.reattach()
    assert [each.method for each in client.received()] == [BasicAck(3, True)]
    for body in (b"1", b"3"):
        client.send(BasicGet(ONE, True), 2)
        assert client.next_content(BasicGetOk).body == body


def test_a_definition_does_not_overtake_what_was_published_before(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    client.call(QueueBind(ONE, "amq.fanout", ""), QueueBindOk)
    lose()
    client.publish("", exchange="amq.fanout")
    client.send(QueueUnbind(ONE, "amq.fanout", ""))
    client.call(QueueBind(TWO, "amq.direct", ""), QueueBindOk, 2)
    assert client.nothing()
    world.reattach()
    assert [type(each.method) for each in client.received()] == [BasicAck, QueueUnbindOk]
    assert depth(client, ONE) == 1


@pytest.mark.parametrize("asked", [True, False])
def test_a_client_that_says_too_much_is_not_heard(
    world: FrontWorld, client: Client, lose: Callable[[], None], asked: bool
) -> None:
    lose()
    if asked:
        client.send(BasicGet(ONE))
    for _ in range(4):
        client.publish(ONE, body=bytes(UNHEARD_BYTES_MAX // 4))
    assert client.connection.wants_input is False
    client.send(BasicGet(TWO), 2)
    assert client.nothing()
    world.reattach()
    assert client.connection.wants_input is True
    answers = [each.method for each in client.received()]
    assert max(each.delivery_tag for each in answers if isinstance(each, BasicAck)) == 4
    assert sum(isinstance(each, BasicGetEmpty) for each in answers) == 1 + asked
    assert depth(client, ONE) == 4


def test_a_channel_that_closes_waits_for_its_own_shards_only(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    client.call(BasicGet(ONE), BasicGetEmpty)
    client.call(BasicGet(TWO), BasicGetEmpty, 2)
    lose()
    client.send(ChannelClose(200, "", 0, 0), 1)
    assert client.nothing()
    client.call(ChannelClose(200, "", 0, 0), ChannelCloseOk, 2)
    world.reattach()
    client.next(ChannelCloseOk, 1)
    client.open_channel(1)
    client.call(BasicGet(ONE), BasicGetEmpty, 1)


@pytest.mark.parametrize("asked", [True, False])
def test_a_client_that_leaves_has_said_everything(
    world: FrontWorld, client: Client, lose: Callable[[], None], asked: bool
) -> None:
    client.publish(ONE, channel=2)
    client.call(BasicGet(ONE), BasicGetOk, 2)
    lose()
    if asked:
        client.send(BasicGet(ONE), 2)
    client.send(BasicAck(1), 2)
    client.publish(ONE, body=b"last words", channel=2)
    client.send(CLOSE, 0)
    assert client.nothing()
    world.reattach()
    assert isinstance(client.received()[-1].method, ConnectionCloseOk)
    other = world.client()
    other.send(BasicGet(ONE, True))
    assert other.next_content(BasicGetOk).body == b"last words"
    other.call(BasicGet(ONE), BasicGetEmpty)


def test_a_client_that_leaves_takes_nothing_along_that_its_shard_has_not_heard(
    world: FrontWorld, client: Client
) -> None:
    shard = world.worlds[place(ONE)]
    shard.hub.set_alarm("low on memory")
    client.writer.content(2, encode(BasicPublish("", ONE)), *content(None, b"last words"))
    client.writer.method(0, encode(CLOSE))
    client.send_bytes(client.writer.take())
    client.next(ConnectionBlocked)
    assert client.nothing()
    shard.hub.set_alarm(None)
    world.work()
    client.next(ConnectionUnblocked)
    client.next(ConnectionCloseOk)
    other = world.client()
    other.send(BasicGet(ONE, True))
    assert other.next_content(BasicGetOk).body == b"last words"


def test_a_client_leaves_after_all_its_channels_were_heard(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    lose()
    for channel in (1, 2):
        client.send(BasicGet(ONE), channel)
    for channel in (1, 2):
        client.send(BasicGet(TWO), channel)
        client.publish(ONE, channel=channel)
    client.send(CLOSE, 0)
    world.reattach()
    assert isinstance(client.received()[-1].method, ConnectionCloseOk)
    assert world.client().call(QueueDeclare(ONE, passive=True), QueueDeclareOk).message_count == 2


def test_a_client_that_has_said_nothing_may_leave(client: Client, lose: Callable[[], None]) -> None:
    client.call(BasicConsume(ONE), BasicConsumeOk)
    lose()
    client.call(CLOSE, ConnectionCloseOk, 0)


def test_a_channel_that_fails_while_it_waits_hears_the_end_of_that(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    lose()
    client.send(BasicGet(ONE))
    client.publish(ONE, body=b"nobody hears this")
    client.send(ChannelClose(200, "", 0, 0))
    queue = world.worlds[place(ONE)].core.topology.vhost("/").queues[ONE]
    with world.worlds[place(ONE)].hub.locked() as core:
        core.gone = None  # no node has heard of it yet
        core.delete_queue(queue)
    world.reattach()
    assert client.next(ChannelClose, 1).reply_code == 404
    client.next(ChannelCloseOk, 1)
    client.open_channel(1)


def test_questions_are_asked_again_of_one_owner_after_another(
    world: FrontWorld, client: Client, lose: Callable[[], None]
) -> None:
    lose()
    client.publish(ONE, channel=2)
    client.send(QueuePurge(ONE), 2)
    world.reattach()
    assert client.next(QueuePurgeOk, 2).message_count == 1
    lose()
    client.send(QueueDelete(ONE), 2)
    client.publish(ONE, mandatory=False, channel=2)
    world.reattach()
    client.next(QueueDeleteOk, 2)
    assert client.nothing()
