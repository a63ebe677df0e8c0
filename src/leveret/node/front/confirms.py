"""Confirms of a channel whose publishes go to several shards: one is safe when every shard that it went to says so."""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple


class Verdict(NamedTuple):
    """What is to be said of publishes: of one, or of all up to it that nothing was said of."""

    number: int
    multiple: bool
    safe: bool


class Confirms:
    """Publishes of which not every shard has spoken."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._missing: dict[int, int] = {}  # by number, rising: how many shards have not spoken
        self._refused: set[int] = set()
        self._sent: dict[str, deque[tuple[int, int]]] = {}  # by shard: its number and ours, both rising
        self._inner: dict[str, int] = {}

    def __len__(self) -> int:
        """How many publishes the client was told nothing of."""
        return len(self._missing)

    @property
    def is_idle(self) -> bool:
        """Whether every shard has spoken of everything that it was sent."""
        return not any(self._sent.values())

    def waits_for(self, home: str) -> bool:
        """Whether a shard has not spoken of everything that it was sent."""
        return bool(self._sent.get(home))

    def sent(self, number: int, homes: Iterable[str]) -> None:
        """A publish goes to some shards; 0: nobody wants to know what becomes of it."""
        for home in homes:
            self._inner[home] = inner = self._inner.get(home, 0) + 1
            self._sent.setdefault(home, deque()).append((inner, number))
            if number:
                self._missing[number] = self._missing.get(number, 0) + 1

    def heard(self, home: str, inner: int, multiple: bool, safe: bool) -> list[Verdict]:
        """A shard has spoken; give what the client can be told now."""
        sent = self._sent.get(home, deque())
        if multiple:
            spoken = []
            while sent and sent[0][0] <= inner:
                spoken.append(sent.popleft()[1])
        else:
            spoken = [number for known, number in sent if known == inner]
            self._sent[home] = deque(pair for pair in sent if pair[0] != inner)
        return self._decide(spoken, safe)

    def lost(self, home: str) -> list[Verdict]:
        """A shard is gone, and nobody knows whether it had the last publishes: they are to be sent again."""
        sent = self._sent.pop(home, deque())
        self._inner.pop(home, None)
        return self._decide([number for _, number in sent], safe=False)

    def _decide(self, spoken: list[int], safe: bool) -> list[Verdict]:
        """Count what shards have said; a run of safe ones from the first on is one verdict."""
        finished = []
        for number in filter(None, spoken):
            if not safe:
                self._refused.add(number)
            self._missing[number] -= 1
            if not self._missing[number]:
                finished.append(number)
        run, count = self._run(finished)
        for number in finished:
            del self._missing[number]
        verdicts = [Verdict(run, multiple=count > 1, safe=True)] if run else []
        for number in sorted(finished):
            if number > run:
                verdicts.append(Verdict(number, multiple=False, safe=number not in self._refused))
                self._refused.discard(number)
        return verdicts

    def _run(self, finished: list[int]) -> tuple[int, int]:
        """How far everything is safe, with nothing undecided before (0: not even the first), and how many that are."""
        done = set(finished) - self._refused
        last = count = 0
        for number in self._missing:
            if number not in done:
                break
            last = number
            count += 1
        return last, count
