"""What clients hold when a shard changes its owner: they keep it, and nobody else is given it."""

from typing import Any

import pytest

from leveret.cluster.proxy import claims
from leveret.cluster.proxy.orphaned_deliveries import GRACE_MS
from leveret.core import claims as claiming
from leveret.core.errors import InvalidArgument, StoreUnreachable
from leveret.core.held import Held
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
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from tests.cluster.takeover_world import HOME, NAME, TakeoverWorld, client_of, consume, cut_off, depth, publish, taken
from tests.protocols.amqp.client import Client


@pytest.fixture
def client(takeover: TakeoverWorld) -> Client:
    return client_of(takeover)


def test_what_is_held_stays_with_its_client_and_can_be_settled(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two", b"three")
    consume(client, prefetch=3)
    tags = taken(client)
    takeover.take_over()
    takeover.pass_ms(GRACE_MS)
    assert client.nothing()
    assert takeover.leased == 3
    client.send(BasicAck(tags[b"one"]))
    client.send(BasicReject(tags[b"two"], requeue=False))
    client.send(BasicNack(tags[b"three"], False, True))
    again = client.next_content(BasicDeliver)
    assert (again.body, again.method.redelivered, again.method.consumer_tag) == (b"three", True, "c")
    client.send(BasicAck(again.method.delivery_tag))
    assert (takeover.leased, depth(client)) == (0, 0)


def test_a_delivery_that_the_disk_does_not_know_of_is_kept_too(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    takeover.freeze()
    consume(client)
    tags = taken(client)
    takeover.take_over()
    assert (takeover.leased, client.nothing()) == (1, True)
    takeover.take_over()  # by now the journal knows
    assert (takeover.leased, client.nothing()) == (1, True)
    client.send(BasicNack(tags[b"one"], False, True))
    assert client.next_content(BasicDeliver).method.redelivered


@pytest.mark.parametrize(
    ("settle", "left"),
    [
        (lambda tag: BasicAck(tag), []),
        (lambda tag: BasicReject(tag, requeue=False), []),
        (lambda tag: BasicNack(tag, True, True), [b"one", b"two"]),
        (lambda tag: BasicAck(tag, multiple=True), []),
    ],
)
def test_what_was_settled_and_lost_with_the_owner_is_settled_again(
    takeover: TakeoverWorld, client: Client, settle: Any, left: list[bytes]
) -> None:
    publish(client, b"one", b"two")
    client.send(BasicGet(NAME))
    client.send(BasicGet(NAME))
    tags = taken(client)
    takeover.freeze()
    settled = settle(tags[b"two"])
    client.send(settled)
    if not getattr(settled, "multiple", False):
        client.send(BasicAck(tags[b"one"]))
    takeover.take_over()
    takeover.pass_ms(GRACE_MS)
    got = []
    client.send(BasicGet(NAME))
    while isinstance((came := client.received()[0]).method, BasicGetOk):
        assert came.method.redelivered
        got.append(came.body)
        client.send(BasicGet(NAME))
    assert got == left


def test_a_settlement_is_remembered_until_it_is_durable(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, *(b"%d" % number for number in range(5)))
    consume(client, prefetch=1)
    shard_connection = next(each for each in takeover.proxied_clients if each.shard_id == HOME)
    takeover.freeze()
    for _ in range(3):
        client.send(BasicAck(client.next(BasicDeliver).delivery_tag))
    assert len(shard_connection.unsure) == 3
    takeover.thaw()
    assert len(shard_connection.unsure) == 0
    takeover.take_over()
    assert client.next_content(BasicDeliver).body == b"3"
    assert client.nothing()


def test_acknowledgements_of_a_closed_channel_count(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    client.open_channel(2)
    client.send(BasicGet(NAME), 2)
    tag = client.next(BasicGetOk, 2).delivery_tag
    takeover.freeze()
    client.send(BasicAck(tag), 2)
    client.call(ChannelClose(200, "", 0, 0), ChannelCloseOk, 2)
    takeover.take_over()
    takeover.pass_ms(GRACE_MS)
    assert depth(client) == 0


def test_prefetch_counts_what_is_held(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two", b"three", b"four")
    consume(client, prefetch=2)
    tags = taken(client)
    assert list(tags) == [b"one", b"two"]
    takeover.take_over()
    assert client.nothing()
    client.send(BasicAck(tags[b"two"], multiple=True))
    assert list(taken(client)) == [b"three", b"four"]


def test_the_limit_of_a_channel_counts_what_is_held(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two")
    client.call(BasicQos(0, 1, True), BasicQosOk)
    client.call(BasicConsume(NAME, "c"), BasicConsumeOk)
    tags = taken(client)
    takeover.take_over()
    assert client.nothing()
    client.send(BasicAck(tags[b"one"]))
    assert list(taken(client)) == [b"two"]


def test_others_do_not_get_what_somebody_may_still_hold(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two")
    client.send(BasicGet(NAME))
    tags = taken(client)
    takeover.lose()
    other = takeover.client()
    consume(other)
    came = taken(other)
    assert list(came) == [b"two"]
    takeover.reattach()
    takeover.pass_ms(GRACE_MS)
    assert other.nothing()
    client.send(BasicAck(tags[b"one"]))
    other.send(BasicAck(came[b"two"]))
    assert (takeover.leased, depth(client)) == (0, 0)


def test_what_nobody_claims_is_delivered_again_in_its_order(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two", b"three")
    consume(client, prefetch=2)
    taken(client)
    takeover.lose()
    takeover.hub.lost(client.connection)
    other = client_of(takeover)
    assert depth(other) == 1
    takeover.pass_ms(GRACE_MS)
    got = [(each.body, each.method.redelivered) for each in gets(other, 3)]
    assert got == [(b"one", True), (b"two", True), (b"three", False)]


def test_what_cannot_be_given_back_now_is_later_and_holds_up_nothing_else(
    takeover: TakeoverWorld, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(client, b"one", b"two")
    consume(client)
    taken(client)
    takeover.lose()
    takeover.hub.lost(client.connection)
    refused: list[int] = []

    def give_up(held: Held, lease: int) -> None:
        if not refused:
            refused.append(held.seq)
            raise StoreUnreachable("PostgreSQL does not answer")
        claiming.give_up(held, lease)

    monkeypatch.setattr("leveret.cluster.proxy.orphaned_deliveries.give_up", give_up)
    takeover.pass_ms(GRACE_MS)
    other = client_of(takeover)
    assert depth(other) == 1
    takeover.pass_ms(GRACE_MS)
    assert [each.body for each in gets(other, 2)] == [b"one", b"two"]


def gets(client: Client, count: int) -> list[Any]:
    found = []
    for _ in range(count):
        client.send(BasicGet(NAME))
        found.append(client.next_content(BasicGetOk))
    return found


def test_a_client_that_goes_gives_back_what_it_had_claimed(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    taken(client)
    takeover.take_over()
    takeover.hub.lost(client.connection)
    takeover.work()
    other = client_of(takeover)
    [got] = gets(other, 1)
    assert got.method.redelivered


def test_a_claim_that_comes_too_late_is_settled_without_effect(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    tags = taken(client)
    takeover.lose()
    other = client_of(takeover)
    takeover.pass_ms(GRACE_MS)
    [got] = gets(other, 1)
    takeover.reattach()
    client.send(BasicAck(tags[b"one"]))
    assert takeover.leased == 1
    other.send(BasicAck(got.method.delivery_tag))
    assert takeover.leased == 0
    publish(client, b"two")
    assert client.next_content(BasicDeliver).body == b"two"


def test_a_number_that_was_given_again_names_another_message(takeover: TakeoverWorld, client: Client) -> None:
    consume(client)
    takeover.freeze()
    publish(client, b"lost with its owner")
    tags = taken(client)
    client.send(BasicAck(tags[b"lost with its owner"]))
    takeover.lose()
    other = client_of(takeover)
    takeover.pass_ms(1)
    other.call(ConfirmSelect(), ConfirmSelectOk)
    publish(other, b"same number")
    other.next(BasicAck)
    takeover.reattach()
    assert client.next_content(BasicDeliver).body == b"same number"


def test_a_cancelled_consumer_keeps_what_it_holds(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two")
    consume(client, prefetch=1)
    tags = taken(client)
    client.call(BasicCancel("c", False), BasicCancelOk)
    takeover.take_over()
    assert takeover.leased == 1
    client.send(BasicAck(tags[b"one"]))
    assert (takeover.leased, depth(client), client.nothing()) == (0, 1, True)


def test_a_transaction_settles_with_the_next_owner(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one", b"two")
    client.call(TxSelect(), TxSelectOk)
    consume(client)
    tags = taken(client)
    client.send(BasicAck(tags[b"one"]))
    takeover.take_over()
    assert takeover.leased == 2
    client.call(TxCommit(), TxCommitOk)
    assert takeover.leased == 1


def test_recovered_messages_come_again_from_the_next_owner(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    taken(client)
    takeover.take_over()
    client.call(BasicRecover(True), BasicRecoverOk)
    assert client.next_content(BasicDeliver).method.redelivered


def test_messages_that_are_being_recovered_come_at_once_from_the_next_owner(
    takeover: TakeoverWorld, client: Client
) -> None:
    publish(client, b"one")
    consume(client)
    taken(client)
    takeover.freeze()
    takeover.deaf = True
    client.send(BasicRecover(True))
    takeover.deaf = False
    takeover.take_over()
    client.next(BasicRecoverOk)
    again = client.next_content(BasicDeliver)
    assert (again.body, again.method.redelivered, takeover.leased) == (b"one", True, 1)


def test_priorities_and_groups_are_found_again(takeover: TakeoverWorld) -> None:
    client = client_of(takeover, **{"x-max-priority": 5, "x-message-groups": "fifo"})
    for number, group in enumerate("aab"):
        headers = {"x-group-id": group}
        client.publish(NAME, body=b"%d" % number, delivery_mode=2, priority=number, headers=headers)
    consume(client)
    tags = taken(client)
    takeover.take_over()
    assert (takeover.leased, client.nothing()) == (len(tags), True)
    for tag in tags.values():
        client.send(BasicAck(tag))
    assert sorted([*tags, *taken(client)]) == [b"0", b"1", b"2"]


def test_a_node_that_cannot_be_reached_for_a_moment_costs_nothing(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    tags = taken(client)
    other = takeover.client()
    other.call(BasicConsume(NAME, "o"), BasicConsumeOk)
    cut_off(takeover, client)
    takeover.reattach()
    assert (client.nothing(), other.nothing()) == (True, True)
    client.send(BasicAck(tags[b"one"]))
    assert takeover.leased == 0


def test_a_shard_that_is_handed_over_gives_nothing_back(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    tags = taken(client)
    other = takeover.client()
    other.call(BasicConsume(NAME, "o"), BasicConsumeOk)
    takeover.shards[HOME].leave()
    for proxied in takeover.proxied_clients.values():
        proxied.close()
    takeover.take_over()
    assert (client.nothing(), other.nothing()) == (True, True)
    client.send(BasicAck(tags[b"one"]))
    takeover.pass_ms(GRACE_MS)
    assert (takeover.leased, depth(client)) == (0, 0)


def test_who_held_a_message_before_somebody_else_has_it_no_more(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    late = taken(client)
    other = takeover.client()
    consume(other)
    cut_off(takeover, client)
    takeover.pass_ms(GRACE_MS)
    tags = taken(other)
    takeover.take_over()
    client.send(BasicAck(late[b"one"]))
    assert takeover.leased == 1
    other.send(BasicAck(tags[b"one"]))
    assert takeover.leased == 0


@pytest.mark.parametrize("payload", [b"", b"\x05q", b"\x01q\x01c123", b"\x01q"])
def test_what_is_no_claim_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidArgument, match="is it of another version"):
        claims.claim_of(claims.CLAIM + payload)
    with pytest.raises(InvalidArgument, match="is it of another version"):
        claims.number_of(claims.MARK + payload)


def test_claims_out_of_order_are_refused(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    consume(client)
    client.received()
    shard_connection = next(each for each in takeover.proxied_clients if each.shard_id == HOME)
    record = (1).to_bytes(8, "big") + bytes(29)
    shard_connection.method(1, next(claims.claims([("c", claims.PackedName(b"\x01q" + record))])))
    takeover.work()
    assert client.next(ChannelClose).reply_code == 406


def test_many_claims_are_several_methods() -> None:
    record = bytes(37)
    held = [("c", claims.PackedName(b"\x01q" + record))] * (claims.RECORDS_MAX + 1)
    told = [claims.claim_of(each) for each in claims.claims(held)]
    assert [(queue, consumer, len(records)) for queue, consumer, records in told] == [("q", "c", 64), ("q", "c", 1)]


def test_an_empty_queue_is_empty_for_the_next_owner(takeover: TakeoverWorld, client: Client) -> None:
    takeover.take_over()
    client.send(BasicGet(NAME))
    client.next(BasicGetEmpty)


@pytest.mark.parametrize("mode", [None, 1])
def test_a_transient_message_of_a_quorum_queue_is_confirmed_when_durable_and_survives_its_owner(
    takeover: TakeoverWorld, mode: int | None
) -> None:
    client = client_of(takeover, **{"x-queue-type": "quorum"})
    client.call(ConfirmSelect(), ConfirmSelectOk)
    takeover.freeze()
    client.publish(NAME, body=b"one", delivery_mode=mode)
    assert client.nothing()
    takeover.thaw()
    client.next(BasicAck)
    takeover.take_over()
    client.send(BasicGet(NAME))
    got = client.next_content(BasicGetOk)
    assert got.properties is not None
    assert (got.body, got.properties.delivery_mode) == (b"one", mode)
