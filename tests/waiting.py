"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 100.0
"""Longer than anything takes on a machine that does much else, and less than the limit of a test."""
POLL_S = 0.02
T = TypeVar("T")


def wait_until(holds: Callable[[], T | None], told: Callable[[], object] = lambda: "it did not happen") -> T:
    """What something gives as soon as that is true; look again and again, but not for ever: `told` says why then."""
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, told()
        time.sleep(POLL_S)
    return found
