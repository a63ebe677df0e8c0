"""Pushing to consumers when the lock is let go."""

import threading

import pytest

import leveret
from leveret.core import dispatch
from leveret.core.consumer import Consumer
from leveret.core.held import Held
from leveret.core.properties import Properties
from tests.waiting import PATIENCE_S


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
    with broker.runtime as core:
        for name in core.topology.vhost("/").queues:
            core.publish_through("/", "", name, Properties(), b"")


def test_a_queue_that_cannot_be_read_does_not_hold_up_others() -> None:
    counting = Counting("counting")
    with leveret.open(clock=leveret.ManualClock()) as broker:
        broker.declare_queues(["bad", "good"])
        with broker.runtime as core:
            queues = core.topology.vhost("/").queues
            dispatch.subscribe(queues["bad"], Broken("broken"))
            dispatch.subscribe(queues["good"], counting)
        with pytest.raises(leveret.DamagedJournal):
            publish_to_all(broker)
        assert counting.got == 1
        assert queues["bad"].backing_off == 1


class Faulty(Consumer):
    """Its code is broken."""

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        self.tried = threading.Event()

    def deliver(self, held: Held) -> None:
        self.tried.set()
        raise RuntimeError("a bug")


class Waiting(Consumer):
    """Says when it gets something."""

    def __init__(self, tag: str) -> None:
        super().__init__(tag)
        self.got = threading.Event()

    def deliver(self, held: Held) -> None:
        self.got.set()


def test_a_consumer_with_a_fault_does_not_stop_time() -> None:
    faulty, waiting, clock = Faulty("faulty"), Waiting("waiting"), leveret.ManualClock()
    with leveret.open(clock=clock) as broker:
        broker.declare_queues(["bad", "good"])
        with broker.runtime as core:
            for name, consumer, delay_ms in (("bad", faulty, 1_000), ("good", waiting, 5_000)):
                dispatch.subscribe(core.topology.vhost("/").queue(name), consumer)
                core.publish_through("/", "", name, Properties(), b"", due_ms=core.now_ms + delay_ms)
        clock.advance(1)
        assert faulty.tried.wait(PATIENCE_S)
        clock.advance(4)
        assert waiting.got.wait(PATIENCE_S)
