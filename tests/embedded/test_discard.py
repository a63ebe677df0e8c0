"""Messages that meet a condition are removed for good."""

from collections.abc import Callable

import pytest

import leveret
from leveret.runtime.redrive import STEP

Reopen = Callable[[], leveret.Broker]


@pytest.mark.everywhere
def test_only_what_is_meant_goes(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    ids = orders.send_many(["good", "bad 1", "bad 2", "bad 3"])
    assert orders.discard(contains="bad", dry_run=True) == 3
    assert orders.discard(contains="bad", limit=1) == 1
    assert orders.discard(message_ids=[ids[3]]) == 1
    assert [message.body for message in orders.browse()] == ["good", "bad 2"]
    assert (orders.stats().dropped, len(orders)) == (2, 2)


@pytest.mark.everywhere
def test_without_a_condition_it_is_refused(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send("stays")
    with pytest.raises(leveret.InvalidArgument, match="condition"):
        orders.discard(contains=None)
    assert len(orders) == 1


def test_more_than_one_step(broker: leveret.Broker) -> None:
    orders = broker.queue("orders")
    orders.send_many([f"{number % 2}" for number in range(3 * STEP)])
    assert orders.discard(contains="1") == 3 * STEP // 2
    assert len(orders) == 3 * STEP // 2


def test_what_was_removed_does_not_come_back(reopen: Reopen) -> None:
    broker = reopen()
    broker.queue("orders").send_many(["good", "bad"])
    broker.queue("orders").discard(contains="bad")
    assert [message.body for message in reopen().queue("orders").browse()] == ["good"]
