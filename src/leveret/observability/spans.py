"""Spans on their way to a collector: a bounded queue and a thread that empties it.

A caller leaves its span here and goes on. A collector that is slow or gone costs memory up to the bound, then
spans, which are counted; it never costs the broker time.
"""

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from leveret.observability.logs import Log

BATCH_MAX = 512  # spans of one request
SEND_S = 1.0  # for so long a span waits at most for others to go with it
CLOSE_S = 2.0  # for what is left when the broker is closed

Attribute = str | int | Sequence[str]
LOG = Log("tracing")


class TraceSpan(NamedTuple):
    """Something that was done for a message."""

    name: str
    kind: str
    trace_id: int
    span_id: int
    parent_id: int
    """0: it is the first of its trace."""
    state: str
    start_ns: int
    end_ns: int
    attributes: Mapping[str, Attribute]


class SpanSender(Protocol):
    """What knows the collector."""

    def send(self, spans: list[TraceSpan]) -> bool: ...  # hand spans over; False when they are lost
    def close(self) -> None: ...  # give up what is being sent


class Spans:
    """What waits for a collector. `exported` and `dropped` count."""

    def __init__(self, sender: SpanSender, waiting_max: int) -> None:
        self._sender = sender
        self._waiting_max = waiting_max
        self._waiting: deque[TraceSpan] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._told = 0
        self._complained = False
        self.exported = 0
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="leveret-spans", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, span: TraceSpan) -> None:
        """Leave a span here; from any thread."""
        if len(self._waiting) >= self._waiting_max:
            self.dropped += 1
            return
        self._waiting.append(span)
        if len(self._waiting) == BATCH_MAX:
            self._wake.set()

    def close(self) -> None:
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_S)
        self._sender.close()
        self._thread.join(CLOSE_S)
        self.dropped += len(self._waiting)
        self._waiting.clear()

    def _run(self) -> None:
        while not self._closing or self._waiting:
            if len(self._waiting) < BATCH_MAX and not self._closing:
                self._wake.wait(SEND_S)
            self._wake.clear()
            if self._waiting and not self._send() and self._closing:
                return
            self._complain()

    def _send(self) -> bool:
        batch = [self._waiting.popleft() for _ in range(min(BATCH_MAX, len(self._waiting)))]
        try:
            done = self._sender.send(batch)
        except Exception as error:
            LOG.error("spans not sent", error)
            done = False
        if done:
            self.exported += len(batch)
        else:
            self.dropped += len(batch)
        return done

    def _complain(self) -> None:
        """Say that spans are lost when that begins."""
        begun = self.dropped > self._told and not self._complained
        self._complained = self.dropped > self._told
        self._told = self.dropped
        if begun:
            LOG.warning("spans dropped", dropped=self.dropped, advice="see whether the collector is there and quick")
