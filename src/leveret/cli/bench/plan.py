"""What is measured, for how long, and what came of it."""

import threading
import time
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}
SAMPLES_MAX = 4_000_000  # latencies that are kept: 8 bytes each
QUIET_S = 5.0  # after which consumers do not wait any longer for what is still missing
STAMP_BYTES = 20
"""The time of sending, in digits, at the beginning of each body."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do."""

    url: str
    queue: str
    size_bytes: int
    seconds: float
    count: int
    window: int
    """Publishes that may wait for their confirm."""
    rate: float | None
    queue_type: str | None
    ca_file: str | None


@dataclass(slots=True)
class Measured:
    """One side of it; written by one thread."""

    count: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    latencies_s: "array[float]" = field(default_factory=lambda: array("d"))

    def note(self, count: int, latencies_s: Iterable[float]) -> None:
        """So many more, with their times."""
        self.last_s = time.monotonic()
        if self.count == 0:
            self.first_s = self.last_s
        self.count += count
        if len(self.latencies_s) < SAMPLES_MAX:
            self.latencies_s.extend(latencies_s)

    def result(self, began_s: float) -> dict[str, Any]:
        took_s = max(self.last_s - began_s, 1e-9)
        ordered = sorted(self.latencies_s)
        return {
            "messages": self.count,
            "per_second": round(self.count / took_s) if self.count else 0,
            "latency_ms": {name: round(1000 * quantile(ordered, share), 3) for name, share in QUANTILES.items()},
        }


def quantile(ordered: list[float], share: float) -> float:
    """The value below which a share of all values lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Race:
    """What the threads of one measurement share: when it ends, and why it failed."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sent, self.received = Measured(), Measured()
        self.began_s = time.monotonic()
        self.published = threading.Event()
        """Everything was sent and confirmed."""
        self.failure: Exception | None = None
        self._quiet_since_s = self.began_s
        self._seen = -1

    def left(self, sent: int) -> int:
        """How many messages may be sent now."""
        plan, now_s = self.plan, time.monotonic()
        if now_s - self.began_s >= plan.seconds or self.failure is not None:
            return 0
        return plan.count - sent

    def due(self, sent: int) -> float:
        """How many seconds it is until the rate allows another message."""
        if self.plan.rate is None:
            return 0.0
        return max(0.0, self.began_s + sent / self.plan.rate - time.monotonic())

    def is_over(self) -> bool:
        """Whether consumers have all that there is, or nothing has come for a while."""
        if self.failure is not None:
            return True
        if not self.published.is_set():
            return False
        now_s = time.monotonic()
        if self.received.count != self._seen:
            self._seen, self._quiet_since_s = self.received.count, now_s
        return self.received.count >= self.sent.count or now_s - self._quiet_since_s > QUIET_S


def stamp(size_bytes: int) -> bytes:
    """A body with the time of now in it."""
    return b"%020d" % time.monotonic_ns() + b"x" * (size_bytes - STAMP_BYTES)


def age_s(body: bytes, now_ns: int) -> float:
    """How long ago a body was made."""
    return (now_ns - int(body[:STAMP_BYTES])) / 1e9
