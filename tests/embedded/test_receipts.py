"""Receipts settle without the message object, and nothing else does."""

from collections.abc import Callable

import pytest

import leveret
from leveret.runtime.receipts import proof_of

Reopen = Callable[[], leveret.Broker]


@pytest.fixture
def orders(broker: leveret.Broker) -> leveret.Queue:
    queue = broker.queue("orders", dead_letter="dlq")
    queue.send("x")
    return queue


@pytest.mark.everywhere
def test_a_receipt_acknowledges(orders: leveret.Queue) -> None:
    orders.ack(orders.receive()[0].receipt)
    assert orders.stats().acked == 1


@pytest.mark.everywhere
def test_a_receipt_gives_back_extends_and_rejects(orders: leveret.Queue, clock: leveret.ManualClock) -> None:
    orders.nack(orders.receive()[0].receipt, delay=0)
    receipt = orders.receive()[0].receipt
    orders.extend(receipt, 100)
    clock.advance(99)
    orders.reject(receipt)
    assert orders.stats().dead["rejected"] == 1


@pytest.mark.everywhere
def test_a_used_receipt_is_refused(orders: leveret.Queue) -> None:
    receipt = orders.receive()[0].receipt
    orders.ack(receipt)
    with pytest.raises(leveret.InvalidReceipt, match="not leased"):
        orders.ack(receipt)


@pytest.mark.everywhere
def test_the_receipt_of_an_earlier_delivery_is_refused(orders: leveret.Queue) -> None:
    (first,) = orders.receive()
    receipt = first.receipt
    first.nack(delay=0)
    orders.receive()
    with pytest.raises(leveret.InvalidReceipt, match="has ended"):
        orders.ack(receipt)
    assert orders.stats().leased == 1


@pytest.mark.everywhere
def test_every_changed_character_is_noticed(orders: leveret.Queue) -> None:
    receipt = orders.receive()[0].receipt
    for position, character in enumerate(receipt):
        forged = receipt[:position] + ("A" if character != "A" else "B") + receipt[position + 1 :]
        with pytest.raises(leveret.InvalidReceipt):
            orders.ack(forged)
    orders.ack(receipt)


@pytest.mark.parametrize("garbled", ["", "x", "!" * 48, "ä" * 48, "A" * 47, "A" * 49, "A" * 10_000])
def test_what_is_no_receipt_is_refused(orders: leveret.Queue, garbled: str) -> None:
    with pytest.raises(leveret.InvalidReceipt, match="receive it again"):
        orders.ack(garbled)


@pytest.mark.everywhere
def test_the_receipt_of_another_queue_is_refused(broker: leveret.Broker, orders: leveret.Queue) -> None:
    receipt = orders.receive()[0].receipt
    with pytest.raises(leveret.InvalidReceipt, match="another queue"):
        broker.queue("other").ack(receipt)


@pytest.mark.everywhere
def test_the_receipt_of_another_broker_is_refused(orders: leveret.Queue) -> None:
    with leveret.open() as stranger:
        elsewhere = stranger.queue("orders")
        elsewhere.send("x")
        receipt = elsewhere.receive()[0].receipt
    orders.receive()
    with pytest.raises(leveret.InvalidReceipt, match="not made by this broker"):
        orders.ack(receipt)


def test_leases_and_their_receipts_end_with_the_process(reopen: Reopen, clock: leveret.ManualClock) -> None:
    orders = reopen().queue("orders")
    orders.send("x")
    receipt = orders.receive()[0].receipt
    clock.advance(1)
    orders = reopen().queue("orders")
    orders.receive()
    with pytest.raises(leveret.InvalidReceipt):
        orders.ack(receipt)


@pytest.mark.parametrize(
    ("facts", "proof"),
    [(b"", "a3817f04ba25a8e66df67214c7550293"), (b"\0", "da87c1d86b99af44347659119b22fc45")],
)
def test_proofs_are_those_that_the_authors_of_siphash_published(facts: bytes, proof: str) -> None:
    assert proof_of(bytes(range(16)), facts).hex() == proof


def test_proofs_depend_on_every_bit() -> None:
    key, facts = bytes(16), bytes(20)
    flipped = [facts[:at] + bytes([1 << bit]) + facts[at + 1 :] for at in range(20) for bit in range(8)]
    other_key = proof_of(b"\1" + bytes(15), facts)
    assert len({other_key, *(proof_of(key, each) for each in (facts, *flipped))}) == len(flipped) + 2
    with pytest.raises(ValueError, match="16 bytes"):
        proof_of(b"short", facts)
