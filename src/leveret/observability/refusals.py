"""Refusals, counted: the first of a kind is told at once, those after it once a minute as a number.

A client that is refused can ask again thousands of times in a second. What it can fill with that is bounded here: the
table has KEYS_MAX keys, each of which gives at most one row in a minute, and one more when it is new.
"""

from typing import Any, NamedTuple

SUMMARY_MS = 60_000
KEYS_MAX = 256
OTHERS = "(others)"  # in place of the user, when the table is full

Row = dict[str, Any]


class RefusalKey(NamedTuple):
    """What is counted together. `operation` is a word of ours, never text that a client chose."""

    by: str
    operation: str
    cause: str


class Counted:
    """Refusals of one key since the last row about them."""

    __slots__ = ("count", "row", "since_ms")

    def __init__(self) -> None:
        self.count = 0
        self.since_ms = 0
        self.row: Row = {}

    def add(self, row: Row) -> None:
        """Count one; the last one is the example."""
        if not self.count:
            self.since_ms = row["at_ms"]
        self.count += 1
        self.row = row


class Refusals:
    """The table; not for several threads at once."""

    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._keys: dict[RefusalKey, Counted] = {}
        self._others: dict[str, Counted] = {}
        self._due_ms: int | None = None

    def is_first(self, key: RefusalKey, row: Row) -> bool:
        """Whether the row is to be written as it is; otherwise it is counted."""
        if self._due_ms is None:
            self._due_ms = row["at_ms"] + SUMMARY_MS
        known = self._keys.get(key)
        if known is not None:
            known.add(row)
            return False
        if len(self._keys) >= self._keys_max:
            self._others.setdefault(key.operation, Counted()).add({**row, "by": OTHERS})
            return False
        self._keys[key] = Counted()
        return True

    def summaries(self, now_ms: int, *, all: bool = False) -> list[Row]:
        """The rows that are due: one for each key with refusals since its last row. Keys without any are dropped."""
        if self._due_ms is None or (now_ms < self._due_ms and not all):
            return []
        busy = {key: each for key, each in self._keys.items() if each.count}
        counted = [*busy.values(), *self._others.values()]
        rows = [{**each.row, "at_ms": now_ms, "since_ms": each.since_ms, "count": each.count} for each in counted]
        self._keys = {key: Counted() for key in busy}
        self._others = {}
        self._due_ms = now_ms + SUMMARY_MS if busy else None
        return rows
