"""tx.*: nothing happens before the commit, then all of it."""

from pathlib import Path

import pytest

from leveret.core.policy import Policy
from leveret.protocols.amqp import transaction
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from tests.protocols.amqp.client import Client, World


@pytest.fixture
def tx(client: Client) -> Client:
    """A client whose channel is transactional."""
    client.queue()
    client.call(TxSelect(), TxSelectOk)
    return client


def depth(client: Client) -> int:
    return int(client.world.core.topology.vhost("/").queue("q").depth)


def leased(client: Client) -> int:
    return int(client.world.core.topology.vhost("/").queue("q").leased)


def get(client: Client) -> int:
    client.send(BasicGet("q"))
    return client.next(BasicGetOk).delivery_tag


def test_publishes_wait_for_the_commit(tx: Client) -> None:
    tx.publish()
    tx.publish()
    assert depth(tx) == 0
    tx.call(TxCommit(), TxCommitOk)
    assert depth(tx) == 2


def test_a_rollback_forgets_publishes(tx: Client) -> None:
    tx.publish()
    tx.call(TxRollback(), TxRollbackOk)
    tx.call(TxCommit(), TxCommitOk)
    assert depth(tx) == 0


def test_acknowledgements_wait_for_the_commit(tx: Client) -> None:
    tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    tx.send(BasicAck(get(tx)))
    assert leased(tx) == 1
    tx.call(TxCommit(), TxCommitOk)
    assert leased(tx) == 0


def test_what_a_rollback_forgot_can_be_settled_again(tx: Client) -> None:
    tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    tag = get(tx)
    tx.send(BasicAck(tag))
    tx.call(TxRollback(), TxRollbackOk)
    tx.send(BasicNack(tag, requeue=True))
    tx.call(TxCommit(), TxCommitOk)
    assert depth(tx) == 1


def test_all_at_once_is_what_was_there_at_that_time(tx: Client) -> None:
    for _ in range(3):
        tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    get(tx), get(tx)
    tx.send(BasicAck(0, multiple=True))
    get(tx)
    tx.call(TxCommit(), TxCommitOk)
    assert leased(tx) == 1


def test_the_same_message_is_settled_once(tx: Client) -> None:
    tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    tag = get(tx)
    tx.send(BasicAck(tag))
    tx.send(BasicAck(tag))
    text = f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert tx.next(ChannelClose) == ChannelClose(406, text, 60, 80)
    tx.send(BasicGet("q"))
    assert tx.nothing()
    assert depth(tx) == 1


def test_returns_come_with_the_commit(tx: Client) -> None:
    tx.publish("nowhere", mandatory=True)
    assert tx.nothing()
    tx.send(TxCommit())
    tx.next(BasicReturn)
    tx.next(TxCommitOk)


def test_a_missing_exchange_is_noticed_at_once(tx: Client) -> None:
    tx.publish(exchange="missing")
    assert tx.next(ChannelClose).reply_code == 404


def test_a_queue_deleted_meanwhile_does_not_stop_the_commit(tx: Client) -> None:
    tx.publish()
    with tx.world.broker.runtime as core:
        core.delete_queue(core.topology.vhost("/").queue("q"))
    tx.call(TxCommit(), TxCommitOk)


def test_modes_do_not_mix(client: Client) -> None:
    client.call(TxSelect(), TxSelectOk)
    client.call(TxSelect(), TxSelectOk)
    client.send(ConfirmSelect())
    text = "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    assert client.next(ChannelClose) == ChannelClose(406, text, 85, 10)
    client.open_channel(2)
    client.call(ConfirmSelect(), ConfirmSelectOk, 2)
    client.send(TxSelect(), 2)
    text = "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    assert client.next(ChannelClose) == ChannelClose(406, text, 90, 10)


def test_a_transaction_is_bounded(tx: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "COLLECTED_MAX", 2)
    for _ in range(3):
        tx.publish()
    close = tx.next(ChannelClose)
    assert close.reply_code == 406
    assert "commit earlier" in close.reply_text


def test_closing_forgets_the_transaction(tx: Client) -> None:
    tx.publish()
    tx.world.hub.lost(tx.connection)
    other = tx.world.client()
    other.send(BasicGet("q"))
    other.next(BasicGetEmpty)


def test_a_message_too_large_for_its_queue_is_refused_before_the_commit(tx: Client) -> None:
    tx.queue("small", arguments={"x-max-message-size": 3})
    tx.publish("small", b"1234")
    assert tx.next(ChannelClose).reply_code == 406


def test_commit_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    world = World(path=str(tmp_path))
    try:
        client = world.client()
        client.queue(durable=True)
        client.call(TxSelect(), TxSelectOk)
        client.publish(delivery_mode=2)
        client.writer.method(1, encode(TxCommit()))
        world.hub.receive(client.connection, client.writer.take())
        assert client.nothing()
        assert not client.connection.wants_input
        world.work()
        client.next(TxCommitOk)
    finally:
        world.close()


def test_a_delay_that_is_none_is_refused_before_anything_is_committed(tx: Client) -> None:
    tx.call(ExchangeDeclare("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}), ExchangeDeclareOk)
    tx.publish()
    tx.publish("", exchange="late", headers={"x-delay": "soon"})
    assert tx.next(ChannelClose).reply_code == 406
    assert depth(tx) == 0


def test_a_limit_that_came_meanwhile_refuses_all_of_a_commit(tx: Client) -> None:
    tx.publish()
    tx.publish(body=b"longer")
    tx.world.core.set_policy("/", Policy("small", ".*", definition={"max-message-size": 1}))
    tx.send(TxCommit())
    assert tx.next(ChannelClose).reply_code == 406
    assert depth(tx) == 0


def test_an_exchange_that_is_deleted_meanwhile_does_not_stop_a_commit(tx: Client) -> None:
    tx.call(ExchangeDeclare("late", "x-delayed-message", arguments={"x-delayed-type": "fanout"}), ExchangeDeclareOk)
    tx.call(QueueBind("q", "late"), QueueBindOk)
    tx.publish("", exchange="late", headers={"x-delay": 0})
    tx.call(ExchangeDelete("late"), ExchangeDeleteOk)
    tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    assert depth(tx) == 2


def test_many_are_acknowledged_step_by_step(tx: Client) -> None:
    for _ in range(5):
        tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    tags = [get(tx) for _ in range(5)]
    tx.send(BasicAck(tags[1], multiple=True))
    tx.send(BasicAck(tags[3], multiple=True))
    assert leased(tx) == 5
    tx.call(TxCommit(), TxCommitOk)
    assert leased(tx) == 1
    tx.send(BasicAck(0, multiple=True))
    tx.call(TxRollback(), TxRollbackOk)
    tx.send(BasicAck(0, multiple=True))
    tx.call(TxCommit(), TxCommitOk)
    assert leased(tx) == 0


def test_what_is_to_be_settled_is_not_recovered(tx: Client) -> None:
    tx.publish(body=b"1")
    tx.publish(body=b"2")
    tx.call(TxCommit(), TxCommitOk)
    tx.call(BasicGet("q"), BasicGetOk)
    tx.call(BasicGet("q"), BasicGetOk)
    tx.send(BasicAck(1))
    tx.call(BasicRecover(True), BasicRecoverOk)
    tx.call(TxCommit(), TxCommitOk)
    assert (depth(tx), leased(tx)) == (1, 0)
    tx.send(BasicGet("q"))
    assert tx.next_content(BasicGetOk).body == b"2"


def test_what_was_to_be_settled_can_be_recovered_after_a_rollback(tx: Client) -> None:
    tx.publish()
    tx.call(TxCommit(), TxCommitOk)
    tx.call(BasicGet("q"), BasicGetOk)
    tx.send(BasicAck(1))
    tx.call(BasicRecover(True), BasicRecoverOk)
    assert depth(tx) == 0
    tx.call(TxRollback(), TxRollbackOk)
    tx.call(BasicRecover(True), BasicRecoverOk)
    assert depth(tx) == 1


def test_a_mandatory_message_comes_back_if_its_queue_goes_before_the_commit(tx: Client) -> None:
    tx.publish(mandatory=True)
    tx.call(QueueDelete("q"), QueueDeleteOk)
    tx.send(TxCommit())
    tx.next(BasicReturn)
    tx.next(TxCommitOk)


@pytest.mark.parametrize("overflow", ["reject-publish", "reject-publish-dlx"])
def test_a_commit_that_a_full_queue_refuses_in_part_closes_the_channel(client: Client, overflow: str) -> None:
    client.queue("full", arguments={"x-max-length": 1, "x-overflow": overflow})
    client.queue()
    client.publish(body=b"held")
    client.call(BasicGet("q"), BasicGetOk)
    client.call(TxSelect(), TxSelectOk)
    for key in ("full", "full", "q"):
        client.publish(key)
    client.send(BasicAck(1))
    client.send(TxCommit())
    closed = client.next(ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (406, "PRECONDITION_FAILED - partial tx completion")
    assert (closed.class_id, closed.method_id) == (90, 20)
    assert (depth(client), leased(client)) == (1, 0), "what was not refused is done"


def test_a_commit_after_a_rolled_back_publish_to_a_full_queue_is_answered(client: Client) -> None:
    client.queue("full", arguments={"x-max-length": 0, "x-overflow": "reject-publish"})
    client.publish("full")
    client.call(TxSelect(), TxSelectOk)
    client.publish("full")
    client.call(TxRollback(), TxRollbackOk)
    client.call(TxCommit(), TxCommitOk)
