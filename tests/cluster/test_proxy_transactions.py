"""Transactions of clients of a node: what commit-ok says is on the disks of the shards."""

import pytest

from leveret.cluster.proxy.orphaned_deliveries import GRACE_MS
from leveret.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
    QueueDeclareOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.proxy_world import place
from tests.cluster.takeover_world import HOME, NAME, TakeoverWorld, client_of, publish
from tests.protocols.amqp.client import Client


@pytest.fixture
def client(takeover: TakeoverWorld) -> Client:
    """A client that holds a message, and has acknowledged it in a transaction that is open."""
    client = client_of(takeover)
    publish(client, b"one")
    client.call(BasicGet(NAME), BasicGetOk)
    client.call(TxSelect(), TxSelectOk)
    client.send(BasicAck(1))
    return client


def test_a_commit_is_answered_when_what_it_acknowledges_is_on_the_disk(takeover: TakeoverWorld, client: Client) -> None:
    takeover.freeze()
    client.send(TxCommit())
    assert client.nothing()
    takeover.thaw()
    client.next(TxCommitOk)


def test_a_commit_whose_owner_is_killed_is_done_by_the_next_one(takeover: TakeoverWorld, client: Client) -> None:
    takeover.freeze()
    client.send(TxCommit())
    takeover.lose()
    assert client.nothing()
    takeover.reattach()
    client.next(TxCommitOk)
    takeover.take_over()  # it is on the disk of that one
    takeover.pass_ms(GRACE_MS)
    client.call(BasicGet(NAME), BasicGetEmpty)


def test_a_channel_closes_after_its_commit(takeover: TakeoverWorld, client: Client) -> None:
    takeover.freeze()
    client.send(TxCommit())
    client.send(ChannelClose(200, "", 0, 0))
    assert client.nothing()
    takeover.thaw()
    assert [type(each.method) for each in client.received()] == [TxCommitOk, ChannelCloseOk]


def test_a_commit_that_a_shard_refuses_in_part_closes_the_channel(takeover: TakeoverWorld) -> None:
    client = client_of(takeover, **{"x-max-length": 1, "x-overflow": "reject-publish"})
    other = next(name for name in (f"q{number}" for number in range(100)) if place(name) != HOME)
    client.queue(other)
    client.call(TxSelect(), TxSelectOk)
    publish(client, b"one")
    client.call(TxCommit(), TxCommitOk)
    publish(client, b"two")
    client.publish(other)
    client.send(TxCommit())
    closed = client.next(ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (406, "PRECONDITION_FAILED - partial tx completion")
    assert (closed.class_id, closed.method_id) == (90, 20)
    client.send(ChannelCloseOk())
    client.open_channel(1)
    left = [client.call(QueueDeclare(name, passive=True), QueueDeclareOk).message_count for name in (NAME, other)]
    assert left == [1, 1]
