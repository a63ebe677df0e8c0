"""How long a message waits before it is delivered again.

none         0
exponential  base x 2^n, at most max        n = deliveries so far
linear       base x n, at most max
list         the n-th of the list; the last one repeats
"""

from collections.abc import Callable
from dataclasses import dataclass

_EXPONENT_MAX = 40  # any base is over any maximum long before; keeps a huge count from making a huge number


@dataclass(frozen=True, slots=True)
class Backoff:
    """A rule for retries; jitter is the share of a delay that chance may take away."""

    kind: str = "none"
    base_ms: int = 1_000
    max_ms: int = 900_000
    list_ms: tuple[int, ...] = ()
    jitter: float = 0.0


def _listed(backoff: Backoff, deliveries: int) -> int:
    """The n-th delay of the list."""
    return backoff.list_ms[min(max(deliveries, 1), len(backoff.list_ms)) - 1]


_RULES: dict[str, Callable[[Backoff, int], int]] = {
    "none": lambda backoff, deliveries: 0,
    "exponential": lambda backoff, deliveries: min(backoff.base_ms << min(deliveries, _EXPONENT_MAX), backoff.max_ms),
    "linear": lambda backoff, deliveries: min(backoff.base_ms * deliveries, backoff.max_ms),
    "list": _listed,
}
KINDS = tuple(kind for kind in _RULES if kind != "list")


def delay_ms(backoff: Backoff, deliveries: int, random: float = 0.0) -> int:
    """The wait after so many deliveries; `random` from 0 to 1 says how much of the jitter is taken."""
    delay = _RULES[backoff.kind](backoff, deliveries)
    return delay - int(delay * backoff.jitter * random)
