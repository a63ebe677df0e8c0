"""Whether a simulation finds a mistake that was put into it on purpose."""

from collections.abc import Callable
from random import Random

from leveret.core.errors import JournalFailed


def is_found(run: Callable[[Random], None], seeds: int) -> bool:
    """Whether one of so many runs ends with a complaint."""

    def fails(seed: int) -> bool:
        try:
            run(Random(seed))
        except (AssertionError, JournalFailed):
            return True
        return False

    return any(fails(seed) for seed in range(seeds))
