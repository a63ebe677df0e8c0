"""Waiting for what other threads and processes do."""

import time
from collections.abc import Callable

PATIENCE_S = 100.0
"""Longer than anything takes on a machine that does much else, and less than the limit of a test."""
POLL_S = 0.01


def wait_until(holds: Callable[[], object]) -> None:
    """Return when something holds; look again and again, but not for ever."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(POLL_S)
