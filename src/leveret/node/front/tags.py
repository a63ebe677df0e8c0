"""Delivery tags of a channel whose messages come from several shards.

What the client sees is numbered in one row; each shard numbers its own part, in the same order.
"""

from collections.abc import Iterator
from typing import NamedTuple

from leveret.amqp.replies import ProtocolError, Reply
from leveret.node.claims import Name


class Delivery(NamedTuple):
    """Where a delivery came from: the shard, and the tag that it gave; for which consumer, and what is known of it."""

    home: str
    tag: int
    consumer: str
    name: Name | None


class Settled(NamedTuple):
    """What is to be settled in a shard: all up to a tag, and which messages these are."""

    home: str
    tag: int
    names: list[Name]


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

    def add(self, tag: int, delivery: Delivery) -> None:
        """A delivery by a shard, which knows it by another tag."""
        self._deliveries[tag] = delivery

    def through(self, tag: int) -> Iterator[int]:
        """The tags up to this one; 0: all."""
        for each in self._deliveries:
            if tag and each > tag:
                return
            yield each

    def take(self, tag: int) -> Delivery | None:
        """Take one delivery out; None: its shard has taken it back."""
        if tag not in self._deliveries:
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        return self._deliveries.pop(tag)

    def take_through(self, tag: int) -> list[Settled]:
        """Take all deliveries up to this tag out (0: all there are); give what each shard is to be told."""
        if tag and tag not in self._deliveries:
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        by_home: dict[str, Settled] = {}
        for found in [self._deliveries.pop(each) for each in list(self.through(tag))]:
            if found is not None:
                names = by_home[found.home].names if found.home in by_home else []
                by_home[found.home] = Settled(found.home, found.tag, names)
                if found.name is not None:
                    names.append(found.name)
        return list(by_home.values())

    def held(self, home: str) -> Iterator[tuple[str, Name]]:
        """The deliveries of a shard that its next owner can find again, with the tags of their consumers."""
        for found in self._deliveries.values():
            if found is not None and found.home == home and found.name is not None:
                yield found.consumer, found.name

    def lost(self, home: str) -> None:
        """A shard has lost its owner: what its next one cannot find again comes again, and its tag concerns nobody."""
        for tag, found in self._deliveries.items():
            if found is not None and found.home == home and found.name is None:
                self._deliveries[tag] = None

    def clear(self) -> None:
        """Everything goes back."""
        self._deliveries.clear()
