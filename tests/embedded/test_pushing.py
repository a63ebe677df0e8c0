"""Pushing to consumers when the lock is let go."""

import pytest

import leveret
from leveret.core import dispatch
from leveret.core.consumer import Consumer
from leveret.core.held import Held
from leveret.core.properties import Properties


class Broken(Consumer):
    """Nothing can be delivered to it."""

    def deliver(self, held: Held) -> None:
        raise leveret.DamagedJournal("a byte has changed")


class Counting(Consumer):
    """Counts what it gets."""

    got = 0

    def deliver(self, held: Held) -> None:
        self.got += 1


def publish_to_all(broker: leveret.Broker) -> None:
    with broker.guard as core:
        for name in core.topology.vhost("/").queues:
            core.publish_through("/", "", name, Properties(), b"")


def test_a_queue_that_cannot_be_read_does_not_hold_up_others() -> None:
    counting = Counting("counting")
    with leveret.open(clock=leveret.ManualClock()) as broker:
        broker.declare_queues(["bad", "good"])
        with broker.guard as core:
            queues = core.topology.vhost("/").queues
            dispatch.subscribe(queues["bad"], Broken("broken"))
            dispatch.subscribe(queues["good"], counting)
        with pytest.raises(leveret.DamagedJournal):
            publish_to_all(broker)
        assert counting.got == 1
        assert queues["bad"].depth == 1
