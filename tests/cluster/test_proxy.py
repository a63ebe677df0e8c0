"""Clients of a node whose queues are in several shards: they see one broker."""

import gc
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from leveret.core.properties import Properties
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.proxy_world import SHARDS, FrontWorld, place
from tests.protocols.amqp.client import Client


def queues_in_all_shards() -> list[str]:
    """One name for each shard."""
    found: dict[str, str] = {}
    for number in range(100):
        name = f"q{number}"
        found.setdefault(place(name), name)
    assert len(found) == SHARDS
    return list(found.values())


NAMES = queues_in_all_shards()


@pytest.fixture
def client(world: FrontWorld) -> Client:
    """A client with a queue in each shard, all of them bound to one exchange."""
    client = world.client()
    for name in NAMES:
        client.call(QueueDeclare(name, durable=True), QueueDeclareOk)
        client.call(QueueBind(name, "amq.fanout", ""), QueueBindOk)
    return client


def test_queues_are_spread_and_found(world: FrontWorld, client: Client) -> None:
    for name in NAMES:
        client.publish(name, body=name.encode())
    for name in NAMES:
        shard_id = world.shard_id_of("/", name)
        assert list(world.worlds[shard_id].core.topology.vhost("/").queues) == [name]
        client.send(BasicGet(name))
        assert client.next_content(BasicGetOk).body == name.encode()


def test_a_message_for_several_shards_is_confirmed_once_and_is_in_each(client: Client) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("", exchange="amq.fanout", body=b"all")
    assert [each.method for each in client.received()] == [BasicAck(1, False)]
    for name in NAMES:
        assert client.call(QueueDeclare(name, passive=True), QueueDeclareOk).message_count == 1


def test_deliveries_of_all_shards_have_one_row_of_tags(client: Client) -> None:
    for name in NAMES:
        client.call(BasicConsume(name, f"of {name}"), BasicConsumeOk)
    for name in NAMES * 2:
        client.publish(name)
    came = [each.method for each in client.received()]
    assert sorted(each.delivery_tag for each in came) == list(range(1, 2 * SHARDS + 1))
    assert [each.consumer_tag for each in came] == [f"of {name}" for name in NAMES * 2]


def test_settling_many_reaches_every_shard(world: FrontWorld, client: Client) -> None:
    for name in NAMES:
        client.call(BasicConsume(name), BasicConsumeOk)
    for name in NAMES:
        client.publish(name)
    last = [each.method.delivery_tag for each in client.received()][-1]
    client.send(BasicAck(last - 1, multiple=True))
    assert leased(world) == 1
    client.send(BasicAck(last))
    assert leased(world) == 0
    client.send(BasicAck(last))
    assert client.next(ChannelClose).reply_text == f"PRECONDITION_FAILED - unknown delivery tag {last}"


@pytest.mark.parametrize("order", [range(1, 91), range(90, 0, -1), [*range(1, 91, 2), *range(2, 91, 2)]])
def test_many_deliveries_are_settled_in_any_order(world: FrontWorld, client: Client, order: Iterable[int]) -> None:
    for name in NAMES:
        client.call(BasicConsume(name), BasicConsumeOk)
    for _ in range(30):
        client.publish("", exchange="amq.fanout")
    assert len(client.received()) == 90
    for settled, tag in enumerate(order, 1):
        client.send(BasicAck(tag))
        assert leased(world) == 90 - settled
    client.publish(NAMES[0])
    assert client.next(BasicDeliver).delivery_tag == 91


def test_plain_headers_and_times_pass_as_they_came(client: Client) -> None:
    sent: dict[str, Any] = {"headers": {"trace": "7"}, "expiration": "60000", "reply_to": "answers", "message_id": "m"}
    client.publish(NAMES[0], body=b"body", **sent)
    client.send(BasicGet(NAMES[0]))
    came = client.next_content(BasicGetOk)
    assert came.properties == Properties(**sent)
    assert came.body == b"body"


def test_a_body_in_many_frames_goes_both_ways(client: Client) -> None:
    body = bytes(range(256)) * 2_000
    client.call(BasicConsume(NAMES[0]), BasicConsumeOk)
    client.publish(NAMES[0], body=body)
    assert client.next_content(BasicDeliver).body == body


def test_what_is_too_large_for_a_queue_is_refused_before_it_is_sent(client: Client) -> None:
    arguments = {"x-max-message-size": 100}
    client.call(QueueDeclare("small", durable=True, arguments=arguments), QueueDeclareOk)
    client.publish("small", body=bytes(100))
    client.publish("small", body=bytes(101))
    refused = client.next(ChannelClose).reply_text
    assert "message size 101 is larger than configured max size 100 of queue 'small'" in refused


def test_a_client_that_goes_with_messages_leaves_nothing_behind(world: FrontWorld, client: Client) -> None:
    for name in NAMES:
        client.call(BasicConsume(name), BasicConsumeOk)
    client.publish("", exchange="amq.fanout")
    assert len(client.received()) == SHARDS
    connection = client.connection
    channel = connection.channels[1]
    left = [weakref.ref(each) for each in (connection, channel, *channel.shard_channels.values())]
    world.hub.lost(connection)
    world.work()
    world.hub.flush()
    del connection, channel, client.connection
    gc.collect()
    assert [each() for each in left if each() is not None] == []
    assert leased(world) == 0


def test_what_is_to_be_settled_is_not_recovered(client: Client) -> None:
    client.publish("", exchange="amq.fanout", body=b"1")
    client.call(TxSelect(), TxSelectOk)
    for name in NAMES:
        client.call(BasicGet(name), BasicGetOk)
    client.send(BasicAck(1))
    client.call(BasicRecover(True), BasicRecoverOk)
    client.call(TxCommit(), TxCommitOk)
    client.call(BasicGet(NAMES[0]), BasicGetEmpty)
    for name in NAMES[1:]:
        assert client.call(BasicGet(name), BasicGetOk).redelivered


def test_a_delivery_that_was_on_its_way_when_it_was_recovered_is_not_held(world: FrontWorld, client: Client) -> None:
    client.call(BasicConsume(NAMES[0], "c"), BasicConsumeOk)
    other = world.client()
    world.deaf = True
    other.publish(NAMES[0], b"one")
    client.send(BasicRecover(True))
    world.deaf = False
    world.work()
    client.next(BasicDeliver)
    client.next(BasicRecoverOk)
    assert client.next(BasicDeliver).redelivered
    assert client.connection.channels[1].unacked_count == 1


@pytest.mark.parametrize("ends", ["channel", "connection"])
def test_what_a_channel_has_counted_stays_when_it_is_gone(world: FrontWorld, client: Client, ends: str) -> None:
    client.publish(NAMES[0])
    if ends == "channel":
        client.call(ChannelClose(200, "", 0, 0), ChannelCloseOk)
    else:
        world.hub.lost(client.connection)
    assert world.hub.traffic.of(world.hub.connections)["received"] == 1


def test_what_nobody_wants_comes_back(client: Client) -> None:
    client.publish("nowhere", mandatory=True)
    assert client.next(BasicReturn).reply_text == "NO_ROUTE"


def test_a_closed_channel_gives_back_in_every_shard(world: FrontWorld, client: Client) -> None:
    client.open_channel(2)
    for name in NAMES:
        client.publish(name)
        client.send(BasicGet(name), 2)
        client.next(BasicGetOk)
    assert leased(world) == SHARDS
    client.send(ChannelClose(200, "", 0, 0), 2)
    assert leased(world) == 0
    client.received()
    client.open_channel(2)
    client.send(BasicGet(NAMES[0]), 2)
    assert client.next(BasicGetOk).redelivered


def test_an_exclusive_queue_stays_on_the_node_and_goes_with_its_connection(world: FrontWorld, client: Client) -> None:
    client.call(QueueDeclare("mine", exclusive=True), QueueDeclareOk)
    other = world.client()
    other.send(QueueDeclare("mine", passive=True))
    assert other.next(ChannelClose).reply_code == 405
    assert "mine" in world.worlds["@here"].core.topology.vhost("/").queues
    world.hub.lost(client.connection)
    world.work()
    assert "mine" not in world.core.topology.vhost("/").queues
    assert "mine" not in world.worlds["@here"].core.topology.vhost("/").queues


# Another owner


def lose(world: FrontWorld, shard_id: str) -> None:
    """The owner of a shard goes; nobody has taken it over yet."""
    for shard_connection, proxied in list(world.proxied_clients.items()):
        if shard_connection.shard_id == shard_id:
            proxied.abort()
    world.work()


def test_consumers_go_on_with_the_next_owner(world: FrontWorld, client: Client) -> None:
    name = NAMES[0]
    client.call(BasicQos(0, 10), BasicQosOk)
    client.call(BasicConsume(name, "c"), BasicConsumeOk)
    client.publish(name, body=b"one")
    first = client.next_content(BasicDeliver)
    lose(world, world.shard_id_of("/", name))
    world.reattach()
    client.publish(name, body=b"two")
    assert client.next_content(BasicDeliver).body == b"two"
    assert leased(world) == 2
    client.send(BasicAck(first.method.delivery_tag))
    assert leased(world) == 1


def test_a_question_is_asked_again(world: FrontWorld, client: Client) -> None:
    name = NAMES[0]
    client.publish(name, body=b"kept")
    lose(world, world.shard_id_of("/", name))
    client.send(BasicGet(name))
    assert client.nothing()
    world.reattach()
    assert client.next_content(BasicGetOk).body == b"kept"
    client.send(BasicGet(name))
    client.next(BasicGetEmpty)


def test_a_channel_is_closed_though_its_shard_has_gone(world: FrontWorld, client: Client) -> None:
    name = NAMES[0]
    client.open_channel(2)
    client.send(BasicGet(name), 2)
    client.next(BasicGetEmpty)
    world.deaf = True
    client.send(ChannelClose(200, "", 0, 0), 2)
    assert client.nothing()
    world.deaf = False
    lose(world, world.shard_id_of("/", name))
    client.next(ChannelCloseOk, 2)
    world.reattach()
    client.open_channel(2)
    client.call(QueueDeclare(name, passive=True), QueueDeclareOk, 2)


def test_what_was_on_its_way_is_refused(world: FrontWorld, client: Client) -> None:
    name = NAMES[0]
    client.call(ConfirmSelect(), ConfirmSelectOk)
    world.deaf = True
    client.publish(name)
    assert client.nothing()
    world.deaf = False
    lose(world, world.shard_id_of("/", name))
    assert client.next(BasicNack) == BasicNack(1, False, False)


def test_an_owner_that_may_have_lost_its_shard_delivers_nothing(world: FrontWorld, client: Client) -> None:
    name = NAMES[0]
    shard = world.shards[world.shard_id_of("/", name)]
    client.call(BasicConsume(name, "c"), BasicConsumeOk)
    proofs = [False]
    shard.is_proven = lambda: proofs[0]
    client.publish(name, body=b"whose is it")
    shard.look()
    world.work()
    assert client.nothing()
    proofs[0] = True
    shard.look()
    world.work()
    assert client.next_content(BasicDeliver).body == b"whose is it"


def test_a_shard_that_knows_older_definitions_learns_first(world: FrontWorld, client: Client) -> None:
    name = NAMES[0]
    looks: list[Callable[[bool], None]] = []
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish(name)
    client.received()
    world.version = 7
    asked: list[int] = []

    def knows(version: int, then: Callable[[bool], None]) -> bool:
        asked.append(version)
        looks.append(then)
        return False

    shard = world.shards[world.shard_id_of("/", name)]
    shard.knows = knows
    client.publish(name)
    assert (asked, client.nothing()) == ([7], True)
    looks[0](True)
    world.work()
    assert client.next(BasicAck) == BasicAck(2, False)
    client.publish(name)
    assert client.next(BasicAck) == BasicAck(3, False)
    world.version = 8
    client.publish(name)
    looks[1](False)  # it cannot get to know: its clients look for it again
    world.work()
    assert client.next(BasicNack) == BasicNack(4, False, False)
    shard.knows = lambda version, then: True
    world.reattach()
    client.publish(name)
    assert client.next(BasicAck) == BasicAck(5, False)


def test_a_shard_that_goes_while_it_learns_is_asked_no_more(
    world: FrontWorld, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard_id = world.shard_id_of("/", NAMES[0])
    looks: list[Callable[[bool], None]] = []
    client.call(ConfirmSelect(), ConfirmSelectOk)
    world.version = 7

    def knows(version: int, then: Callable[[bool], None]) -> bool:
        looks.append(then)
        return False

    world.shards[shard_id].knows = knows
    client.publish(NAMES[0])
    lose(world, shard_id)
    with monkeypatch.context() as gone:
        gone.setattr(world.worlds[shard_id].broker.runtime, "closed", True)
        looks[0](True)
    world.shards[shard_id].knows = lambda version, then: True
    world.reattach()
    assert client.next(BasicNack) == BasicNack(1, False, False)
    client.publish(NAMES[0])
    assert client.next(BasicAck) == BasicAck(2, False)


def leased(world: FrontWorld) -> int:
    """What clients hold in all shards."""
    return sum(
        queue.leased for each in world.worlds.values() for queue in each.core.topology.vhost("/").queues.values()
    )


def test_a_route_that_is_remembered_ends_with_its_queue(world: FrontWorld, client: Client) -> None:
    client.publish(NAMES[0])
    client.publish(NAMES[0])
    client.call(QueueDelete(NAMES[0]), QueueDeleteOk)
    client.publish(NAMES[0], mandatory=True)
    assert client.next(BasicReturn).reply_text == "NO_ROUTE"


def test_a_remembered_route_knows_how_large_a_message_may_be(client: Client) -> None:
    client.call(QueueDeclare("small", arguments={"x-max-message-size": 10}), QueueDeclareOk)
    client.publish("small", body=bytes(10))
    client.publish("small", body=bytes(11))
    assert client.next(ChannelClose).reply_code == 406
