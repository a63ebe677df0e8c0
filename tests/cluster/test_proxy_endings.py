"""Clients of a node whose channels, connections and shards end while something else is under way."""

from collections.abc import Callable
from typing import Any

import pytest

from leveret.cluster.proxy.orphaned_deliveries import GRACE_MS
from leveret.cluster.proxy.shard_connection import ShardConnection
from leveret.core.changes import Change, DeleteQueue, RenewQueue
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetOk,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionUnblocked,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.replies import Reply
from tests.cluster.proxy_world import FrontWorld, place
from tests.protocols.amqp.client import Client

ONE, TWO = "q0", next(name for name in ("q1", "q2", "q3", "q4") if place(name) != place("q0"))
TIMEOUT_MS = 60_000


@pytest.fixture
def client(world: FrontWorld) -> Client:
    """A client with a queue in each of two shards."""
    client = world.client()
    for name in (ONE, TWO):
        arguments = {"x-consumer-timeout": TIMEOUT_MS}
        client.call(QueueDeclare(name, durable=True, arguments=arguments), QueueDeclareOk)
    return client


def backend_of(world: FrontWorld, name: str) -> ShardConnection:
    """What the client has in the shard of a queue."""
    return next(each for each in world.proxied_clients if each.shard_id == place(name))


def lose(world: FrontWorld, name: str) -> None:
    """The owner of the shard of a queue goes."""
    world.proxied_clients[backend_of(world, name)].abort()
    world.work()


def hold(client: Client, name: str) -> None:
    """Let channel 2 have a message of a queue: after a while its shard closes the channel for that."""
    client.publish(name)
    client.send(BasicGet(name), 2)
    client.next(BasicGetOk, 2)


def test_a_commit_whose_shard_was_lost_is_refused(world: FrontWorld, client: Client) -> None:
    client.call(TxSelect(), TxSelectOk)
    client.publish(ONE)
    world.deaf = True
    client.send(TxCommit())
    assert client.nothing()
    world.deaf = False
    lose(world, ONE)
    refused = client.next(ChannelClose)
    assert (refused.reply_code, refused.class_id, refused.method_id) == (Reply.PRECONDITION_FAILED, 90, 20)
    world.reattach()
    client.send(ChannelCloseOk())
    client.open_channel(1)
    client.call(TxSelect(), TxSelectOk)
    client.publish(ONE)
    client.call(TxCommit(), TxCommitOk)


def test_a_channel_that_both_ends_close_is_closed_when_the_shard_has_heard_it(
    world: FrontWorld, client: Client
) -> None:
    client.open_channel(2)
    hold(client, ONE)
    world.deaf = True
    world.worlds[place(ONE)].pass_ms(TIMEOUT_MS + 1)
    shard_connection = backend_of(world, ONE)
    shard = world.proxied_clients[shard_connection].connection
    its_close = shard.take_output()
    client.send(ChannelClose(200, "", 0, 0), 2)
    its_answer = shard.take_output()
    shard_connection.received(its_close)
    world.work()
    assert client.nothing()
    shard_connection.received(its_answer)
    world.deaf = False
    world.work()
    client.next(ChannelCloseOk, 2)
    client.open_channel(2)
    client.call(QueueDeclare(ONE, passive=True), QueueDeclareOk, 2)


def test_a_channel_that_closes_while_a_shard_has_no_owner_is_closed_there_too(
    world: FrontWorld, client: Client
) -> None:
    client.open_channel(2)
    client.call(BasicConsume(ONE, "c"), BasicConsumeOk, 2)
    hold(client, TWO)
    lose(world, ONE)
    world.worlds[place(TWO)].pass_ms(TIMEOUT_MS + 1)
    world.work()
    client.next(ChannelClose, 2)
    client.send(ChannelCloseOk(), 2)
    world.reattach()
    client.open_channel(2)
    told = client.call(QueueDeclare(ONE, passive=True), QueueDeclareOk, 2)
    assert told.consumer_count == 0


def test_what_a_shard_says_to_a_connection_that_ends_is_for_nobody(world: FrontWorld, client: Client) -> None:
    client.call(BasicConsume(ONE, "c"), BasicConsumeOk)
    shard = world.worlds[place(ONE)]
    other = world.client()
    world.deaf = True
    other.publish(ONE)
    world.hub.ask_close(Reply.CONNECTION_FORCED, "CONNECTION_FORCED - go")
    shard.hub.flush()
    assert client.next(ConnectionClose).reply_code == Reply.CONNECTION_FORCED
    assert not client.connection.finished
    world.deaf = False
    world.work()


def let_go(world: FrontWorld, name: str) -> None:
    """The shard of a queue deletes it by itself, of which the catalog has not heard yet."""
    shard = world.worlds[place(name)]
    shard.core.gone = None
    with shard.hub.locked() as core:
        core.delete_queue(core.topology.vhost("/").queue(name))


def test_a_queue_that_its_shard_has_just_deleted_can_be_declared_again(world: FrontWorld, client: Client) -> None:
    arguments = {"x-consumer-timeout": TIMEOUT_MS}
    client.call(QueueBind(ONE, "amq.fanout"), QueueBindOk)
    let_go(world, ONE)
    client.call(QueueDeclare(ONE, durable=True, arguments=arguments), QueueDeclareOk)
    client.publish("", exchange="amq.fanout", mandatory=True)
    client.next(BasicReturn)
    client.call(QueueBind(ONE, "amq.fanout"), QueueBindOk)
    client.publish("", exchange="amq.fanout", mandatory=True)
    assert client.call(QueueDeclare(ONE, passive=True), QueueDeclareOk).message_count == 1


def test_who_only_looks_for_such_a_queue_does_not_find_it(world: FrontWorld, client: Client) -> None:
    let_go(world, ONE)
    refused = client.call(QueueDeclare(ONE, passive=True), ChannelClose)
    assert (refused.reply_code, refused.class_id, refused.method_id) == (Reply.NOT_FOUND, 50, 10)
    assert refused.reply_text == f"NOT_FOUND - no queue '{ONE}' in vhost '/'"


def test_a_queue_that_somebody_else_has_declared_meanwhile_is_not_replaced(world: FrontWorld, client: Client) -> None:
    arguments = {"x-consumer-timeout": TIMEOUT_MS}
    queues = world.replica.broker.topology.vhost("/").queues
    gone = queues[ONE]
    world.decide(DeleteQueue("/", ONE).apply)
    client.call(QueueDeclare(ONE, durable=True, arguments=arguments), QueueDeclareOk)
    client.publish(ONE, b"kept")
    world.decide(RenewQueue("/", gone, arguments).apply)
    assert client.call(QueueDeclare(ONE, passive=True), QueueDeclareOk).message_count == 1


@pytest.mark.parametrize("ends", ["channel", "connection"])
def test_an_exclusive_queue_that_is_made_too_late_goes_with_its_connection(
    world: FrontWorld, client: Client, ends: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wishes: list[tuple[Change[Any], Callable[[Any], None]]] = []
    decide = world.change
    monkeypatch.setattr(world, "change", lambda *wish: wishes.append(wish))
    client.send(QueueDeclare("mine", exclusive=True))
    if ends == "channel":
        client.connection.channels[1].release()
    else:
        world.hub.lost(client.connection)
    decide(*wishes.pop())
    monkeypatch.undo()
    world.work()
    if ends == "channel":
        assert "mine" in world.core.topology.vhost("/").queues
        world.hub.lost(client.connection)
        world.work()
    assert "mine" not in world.core.topology.vhost("/").queues


def test_a_message_whose_queue_its_shard_has_just_deleted_comes_back(world: FrontWorld, client: Client) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish(ONE, mandatory=True)
    client.received()
    core = world.worlds[place(ONE)].core
    with world.worlds[place(ONE)].hub.locked():
        core.gone = None  # the node has not heard of it yet
        core.delete_queue(core.topology.vhost("/").queues[ONE])
    client.publish(ONE, mandatory=True)
    assert client.next(BasicReturn).reply_text == "NO_ROUTE"


def test_a_guest_that_has_gone_says_nothing_more(
    world: FrontWorld, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    shard, shard_connection = world.shards[place(ONE)], backend_of(world, ONE)
    said: list[bytes] = []
    monkeypatch.setattr(shard, "is_proven", lambda: False)
    client.publish(ONE)
    lose(world, ONE)
    monkeypatch.setattr(shard, "is_proven", lambda: True)
    monkeypatch.setattr(shard_connection, "received", said.append)
    shard.look()
    assert said == []


@pytest.mark.parametrize("ends", ["alarm", "owner"])
def test_a_client_is_told_that_a_shard_takes_no_publishes_and_when_it_does(
    world: FrontWorld, client: Client, ends: str
) -> None:
    shard = world.worlds[place(ONE)].hub
    shard.set_alarm("low on memory")
    client.publish(ONE)
    assert client.next(ConnectionBlocked).reason == "low on memory"
    client.publish(ONE)
    assert client.nothing()
    shard.set_alarm(None)
    if ends == "owner":
        lose(world, ONE)
        world.reattach()
    world.work()
    client.next(ConnectionUnblocked)
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish(ONE)
    client.next(BasicAck)


def test_what_is_kept_waits_no_longer_because_others_are_cut_off_later(world: FrontWorld, client: Client) -> None:
    client.publish(ONE, body=b"one")
    client.publish(ONE, body=b"two")
    for holder in (world.client(), world.client()):
        holder.call(BasicGet(ONE), BasicGetOk)
    client.call(BasicConsume(ONE), BasicConsumeOk)
    proxied_clients = [
        proxied
        for shard_connection, proxied in world.proxied_clients.items()
        if shard_connection.connection is not client.connection
    ]
    proxied_clients[0].cut_off()
    world.pass_ms(GRACE_MS - 500)
    proxied_clients[1].cut_off()
    world.pass_ms(500)
    assert [each.body for each in client.received()] == [b"one"]
    world.pass_ms(GRACE_MS - 500)
    assert [each.body for each in client.received()] == [b"two"]
