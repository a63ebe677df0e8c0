"""Transactions of clients of a node: what commit-ok says is on the disks of the shards."""

import pytest

from leveret.amqp.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.node.unclaimed import GRACE_MS
from tests.amqp.client import Client
from tests.node.takeover_world import NAME, TakeoverWorld, client_of, publish


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
