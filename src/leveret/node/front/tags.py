"""Delivery tags of a channel whose messages come from several shards.

What the client sees is numbered in one row; each shard numbers its own part, in the same order.
"""

from collections.abc import Iterator
from typing import NamedTuple

from leveret.amqp.replies import ProtocolError, Reply


class Delivery(NamedTuple):
    """Where a delivery came from: the shard, and the tag that it gave."""

    home: str
    tag: int


class Settled(NamedTuple):
    """What is to be settled in a shard: one delivery, or all up to a tag."""

    home: str
    tag: int
    multiple: bool


class Tags:
    """What a client was given and has not settled."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._deliveries: dict[int, Delivery | None] = {}  # by tag, rising; None: its shard has taken it back

    def __len__(self) -> int:
        """How many deliveries are not settled."""
        return len(self._deliveries)

    def __contains__(self, tag: int) -> bool:
        """Whether a tag can be settled."""
        return tag in self._deliveries

    def add(self, tag: int, home: str, inner: int) -> None:
        """A delivery by a shard, which knows it by another tag."""
        self._deliveries[tag] = Delivery(home, inner)

    def through(self, tag: int) -> Iterator[int]:
        """The tags up to this one; 0: all."""
        for each in self._deliveries:
            if tag and each > tag:
                return
            yield each

    def settle(self, tag: int, multiple: bool) -> list[Settled]:
        """Take one delivery, or all up to this tag (0: all there are); give what each shard is to be told."""
        if not (multiple and tag == 0) and tag not in self._deliveries:
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        if not multiple:
            found = self._deliveries.pop(tag)
            return [] if found is None else [Settled(*found, multiple=False)]
        highest: dict[str, int] = {}
        for each in list(self.through(tag)):
            found = self._deliveries.pop(each)
            if found is not None:
                highest[found.home] = found.tag
        return [Settled(home, inner, multiple=True) for home, inner in highest.items()]

    def lost(self, home: str) -> None:
        """A shard has taken everything back: what the client says about it from now on concerns nobody."""
        for tag, found in self._deliveries.items():
            if found is not None and found.home == home:
                self._deliveries[tag] = None

    def clear(self) -> None:
        """Everything goes back."""
        self._deliveries.clear()
