"""The inbox of a shard: letters of the outboxes of others, in the order in which they were posted.

Letters of one turn are posted in one go, but one may find no room where the next one does, and some may come to an
owner that was not there before. So each has a place in its turn, and is taken only after the one before it.
"""

from __future__ import annotations

from leveret.core.broker import Broker
from leveret.core.errors import QueueFull
from leveret.node.letter import Letter, deliver

BAGS_MAX = 100_000  # whose turn is remembered; one that is forgotten begins anew


class Inbox:
    """What one owner of a shard was brought."""

    def __init__(self) -> None:
        """Nothing was yet."""
        self._last: dict[str, tuple[int, int]] = {}  # turn and place, by bag: each destination of each shard has one

    def take(self, core: Broker, letter: Letter) -> None:
        """Give a letter to its queues; under the lock of the shard. Refuses what is to be brought again."""
        turn, place = letter.turn, letter.place
        if place and self._last.get(letter.bag) != (turn, place - 1):
            raise QueueFull("a letter before this one was not taken: both wait for room")
        deliver(core, letter)
        if letter.bag:
            self._last.pop(letter.bag, None)
            self._last[letter.bag] = turn, place
            if len(self._last) > BAGS_MAX:
                del self._last[next(iter(self._last))]
