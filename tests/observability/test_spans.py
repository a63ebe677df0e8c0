"""What waits for a collector: sent in batches, bounded, dropped and counted."""

import threading

import pytest

from leveret.observability import spans as telling
from leveret.observability.spans import BATCH_MAX, Spans, TraceSpan
from tests.waiting import PATIENCE_S

SPAN = TraceSpan("publish orders", "SERVER", 1, 2, 0, "", 0, 1, {})


@pytest.fixture(autouse=True)
def only_full_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch goes when it is full, or at the end: not because a slow machine took a second to fill it."""
    monkeypatch.setattr(telling, "SEND_S", PATIENCE_S)
    monkeypatch.setattr(telling, "CLOSE_S", PATIENCE_S)


class Collecting:
    """A sender that can be held up and can fail."""

    def __init__(self, succeeds: bool = True) -> None:
        self.sent: list[list[TraceSpan]] = []
        self.gate = threading.Event()
        self.begun = threading.Event()
        self.succeeds = succeeds

    def send(self, spans: list[TraceSpan]) -> bool:
        self.begun.set()
        self.gate.wait()
        self.sent.append(spans)
        if not self.succeeds:
            raise OSError("no collector")
        return True

    def close(self) -> None:
        self.gate.set()


def test_spans_go_in_batches_and_all_that_is_left_goes_at_the_end() -> None:
    sender = Collecting()
    sender.gate.set()
    spans = Spans(sender, 10_000)
    for _ in range(2 * BATCH_MAX + 1):
        spans.add(SPAN)
    spans.close()
    assert sum(len(batch) for batch in sender.sent) == 2 * BATCH_MAX + 1
    assert max(len(batch) for batch in sender.sent) == BATCH_MAX
    assert (spans.exported, spans.dropped) == (2 * BATCH_MAX + 1, 0)


def test_what_a_slow_collector_cannot_take_is_dropped_and_counted() -> None:
    sender = Collecting()
    spans = Spans(sender, BATCH_MAX)
    for _ in range(BATCH_MAX):
        spans.add(SPAN)
    sender.begun.wait()
    for _ in range(BATCH_MAX + 5):
        spans.add(SPAN)
    assert spans.dropped == 5
    sender.gate.set()
    spans.close()
    assert spans.exported == 2 * BATCH_MAX


def test_what_a_collector_refuses_is_dropped_and_counted() -> None:
    sender = Collecting(succeeds=False)
    sender.gate.set()
    spans = Spans(sender, BATCH_MAX)
    spans.add(SPAN)
    spans.close()
    assert (spans.exported, spans.dropped, len(spans)) == (0, 1, 0)
