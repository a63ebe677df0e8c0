"""Rows on their way to a collector: in order, bounded, sent again, and never at the cost of who notes them."""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing

import pytest

from leveret.observability import forwarding
from leveret.observability.forwarding import BATCH_MAX, AuditForwarder, Line, NotTaken
from tests.waiting import PATIENCE_S, wait_until

SOON = (0.01,)


class Collector:
    """Takes rows, or does what the next of some steps does."""

    def __init__(self, *steps: Callable[[], None]) -> None:
        self.batches: list[list[str]] = []
        self.closed = False
        self._steps = list(steps)

    def send(self, lines: Sequence[Line]) -> None:
        if self._steps:
            self._steps.pop(0)()
        self.batches.append([line.text.decode() for line in lines])

    def close(self) -> None:
        self.closed = True

    @property
    def rows(self) -> list[str]:
        return [row for batch in self.batches for row in batch]


def line(text: object, log: str = "audit") -> Line:
    return Line(log, 0, False, str(text).encode())


def away() -> None:
    raise NotTaken("it is away")


def refuse() -> None:
    raise NotTaken("it is malformed", again=False)


def fail() -> None:
    raise ZeroDivisionError


class Held:
    """A step that waits until it is released."""

    def __init__(self) -> None:
        self.begun, self.released = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        assert self.released.wait(PATIENCE_S)


def test_rows_arrive_in_their_order() -> None:
    collector = Collector()
    with closing(AuditForwarder(collector, 10_000, SOON)) as forwarder:
        for number in range(2_000):
            forwarder.add(line(number))
        wait_until(lambda: forwarder.sent == 2_000)
    assert collector.rows == [str(number) for number in range(2_000)]
    assert max(map(len, collector.batches)) <= BATCH_MAX
    assert collector.closed


def test_a_batch_is_of_one_log() -> None:
    held = Held()
    collector = Collector(held)
    with closing(AuditForwarder(collector, 100, SOON)) as forwarder:
        forwarder.add(line("first"))
        assert held.begun.wait(PATIENCE_S)
        for text, log in (("a", "audit"), ("b", "audit"), ("c", "audit-refusals"), ("d", "audit")):
            forwarder.add(line(text, log))
        held.released.set()
        wait_until(lambda: forwarder.sent == 5)
    assert collector.batches == [["first"], ["a", "b"], ["c"], ["d"]]


def test_a_batch_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarding, "BATCH_BYTES_MAX", 100)
    held = Held()
    collector = Collector(held)
    with closing(AuditForwarder(collector, 100, SOON)) as forwarder:
        forwarder.add(line("first"))
        assert held.begun.wait(PATIENCE_S)
        for _ in range(3):
            forwarder.add(line("x" * 60))
        held.released.set()
        wait_until(lambda: forwarder.sent == 4)
    assert list(map(len, collector.batches)) == [1, 1, 1, 1]


def test_a_collector_that_comes_back_gets_everything() -> None:
    collector = Collector(away, away, away)
    with closing(AuditForwarder(collector, 100, SOON)) as forwarder:
        for number in range(10):
            forwarder.add(line(number))
        wait_until(lambda: forwarder.sent == 10)
        assert (forwarder.failures, forwarder.dropped) == (3, 0)
    assert collector.rows == [str(number) for number in range(10)]


@pytest.mark.parametrize("step", [refuse, fail])
def test_what_is_refused_for_good_is_dropped_and_counted(step: Callable[[], None]) -> None:
    held = Held()

    def refused() -> None:
        held()
        step()

    collector = Collector(refused)
    with closing(AuditForwarder(collector, 100, SOON)) as forwarder:
        forwarder.add(line("bad"))
        assert held.begun.wait(PATIENCE_S)
        forwarder.add(line("good"))
        held.released.set()
        wait_until(lambda: forwarder.sent == 1)
        assert forwarder.dropped == 1
    assert collector.rows == ["good"]


def test_more_rows_than_may_wait_are_dropped_and_counted() -> None:
    held = Held()
    collector = Collector(held)
    with closing(AuditForwarder(collector, 100, SOON)) as forwarder:
        forwarder.add(line("first"))
        assert held.begun.wait(PATIENCE_S)
        for number in range(500):  # returns at once, though the collector hangs
            forwarder.add(line(number))
        assert (len(forwarder), forwarder.dropped) == (100, 401)
        held.released.set()
        wait_until(lambda: forwarder.sent == 100)
        assert len(forwarder) == 0
    assert collector.rows == ["first", *(str(number) for number in range(99))], "the oldest ones"


def test_what_is_left_is_sent_at_the_end() -> None:
    collector = Collector()
    forwarder = AuditForwarder(collector, 100, SOON)
    for number in range(50):
        forwarder.add(line(number))
    forwarder.close()
    assert len(collector.rows) == 50


def test_a_collector_that_is_away_does_not_hold_up_the_end() -> None:
    collector = Collector(*[away] * 1_000)
    forwarder = AuditForwarder(collector, 100, (PATIENCE_S,))
    forwarder.add(line("lost"))
    wait_until(lambda: forwarder.failures == 1)
    forwarder.close()
    assert forwarder.dropped == 1
