"""Rows of the audit log on their way to a collector: a bounded queue, and a thread that empties it in order.

A collector that is slow or away costs memory up to the bound, then rows, which are counted; it never costs the event
loop time. A batch is sent again until the collector takes it, after longer and longer waits; one that it refuses for
good is dropped and counted. A batch whose outcome is unknown is sent again: rows may arrive twice, and `seq` tells.
"""

import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from leveret.observability.logs import Log

BATCH_MAX = 500  # rows that are sent together
BATCH_BYTES_MAX = 512 << 10
WAITS_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # before each further try; the last one again and again
CLOSE_S = 2.0  # for what is left when the server stops

LOG = Log("audit")


class NotTaken(Exception):
    """The collector did not take rows; `again`: it may take them later. The text has no secret in it."""

    def __init__(self, reason: str, again: bool = True) -> None:
        super().__init__(reason)
        self.again = again


class Line(NamedTuple):
    """A row as it is in its file."""

    log: str
    at_ms: int
    is_refusal: bool
    text: bytes


class ForwardSender(Protocol):
    """What knows the collector. Its methods are called by the thread of the forwarder."""

    def send(self, lines: Sequence[Line]) -> None: ...  # hand over lines of one log; NotTaken when that fails
    def close(self) -> None: ...  # hang up


class AuditForwarder:
    """What waits for a collector. `sent`, `dropped` and `failures` (failed tries) count."""

    def __init__(self, sender: ForwardSender, rows_max: int, waits_s: Sequence[float] = WAITS_S) -> None:
        self._sender = sender
        self._rows_max = rows_max
        self._waits_s = waits_s
        self._waiting: deque[Line] = deque()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._is_dropping = False
        self.sent = 0
        self.dropped = 0
        self.failures = 0
        self._thread = threading.Thread(target=self._run, name="leveret-audit-forward", daemon=True)
        self._thread.start()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, line: Line) -> None:
        """Leave a row here; from any thread. One more than may wait is dropped: those that wait are older."""
        if len(self._waiting) < self._rows_max:
            self._waiting.append(line)
            self._wake.set()
            return
        self.dropped += 1
        if not self._is_dropping:
            self._is_dropping = True
            LOG.warning("audit rows dropped", waiting=self._rows_max, advice="see whether the collector takes rows")

    def close(self) -> None:
        """Send what is left, as far as that is quick."""
        self._closing.set()
        self._wake.set()
        self._thread.join(CLOSE_S)
        self._sender.close()
        self.dropped += len(self._waiting)

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while batch := self._batch():
                if not self._deliver(batch):
                    return
                for _ in batch:
                    self._waiting.popleft()
                self._is_dropping = False
            if self._closing.is_set():
                return

    def _batch(self) -> list[Line]:
        """The next lines of one log; they stay in the queue until the collector has them."""
        batch: list[Line] = []
        size = 0
        for line in [self._waiting[at] for at in range(min(BATCH_MAX, len(self._waiting)))]:
            size += len(line.text)
            if batch and (line.log != batch[0].log or size > BATCH_BYTES_MAX):
                break
            batch.append(line)
        return batch

    def _deliver(self, batch: list[Line]) -> bool:
        """Send a batch until it is taken or refused for good; False when the server stops before that."""
        tries = 0
        while True:
            try:
                self._sender.send(batch)
            except NotTaken as refusal:
                if not self._failed(refusal, tries, len(batch)):
                    return True
            except Exception as error:
                LOG.error("audit rows not forwarded", error)
                if not self._failed(NotTaken("a fault in Leveret: see the log", again=False), tries, len(batch)):
                    return True
            else:
                self.sent += len(batch)
                if tries:
                    LOG.info("audit rows forwarded again", tries=tries)
                return True
            if self._closing.wait(self._waits_s[min(tries, len(self._waits_s) - 1)]):
                return False
            tries += 1

    def _failed(self, refusal: NotTaken, tries: int, rows: int) -> bool:
        """Count a failed try; whether to try again."""
        self.failures += 1
        if not refusal.again:
            self.dropped += rows
        if not tries or not refusal.again:
            LOG.warning("audit rows not forwarded", reason=refusal, again=refusal.again, rows=rows)
        return refusal.again
