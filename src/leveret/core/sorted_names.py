"""Names in their order, for lists that are read in pages.

A hundred thousand names are sorted when the first page is asked for. From then on each name that comes or goes
finds its place by bisection, unless very many do so before the next look: then they are sorted anew.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import Any

CHANGES_MAX = 1_000  # since the last look; moving the names behind one takes as long as a thousandth of sorting all


class SortedNames:
    """The keys of a dictionary, which tells what it adds and removes."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._sorted: list[str] | None = None
        self._changes = 0

    def add(self, name: str) -> None:
        """A name that was not there has come."""
        names = self._kept()
        if names is not None:
            insort(names, name)

    def remove(self, name: str) -> None:
        """A name has gone."""
        names = self._kept()
        if names is not None:
            del names[bisect_left(names, name)]

    def _kept(self) -> list[str] | None:
        """The order, if it is worth keeping for one more change."""
        self._changes += 1
        if self._changes > CHANGES_MAX:
            self._sorted = None
        return self._sorted

    def all(self) -> list[str]:
        """Every name; the list is shared: do not change it."""
        if self._sorted is None:
            self._sorted = sorted(self._named)
        self._changes = 0
        return self._sorted

    def after(self, name: str, prefix: str = "") -> Iterator[str]:
        """The names behind one, of those that begin so; nothing may come or go meanwhile."""
        names = self.all()
        for place in range(max(bisect_right(names, name) if name else 0, bisect_left(names, prefix)), len(names)):
            if not names[place].startswith(prefix):
                return
            yield names[place]
