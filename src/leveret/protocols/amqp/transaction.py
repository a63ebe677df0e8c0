"""What a channel in tx mode has collected: publishes that were routed already, and settlements.

All of it goes into the core without letting go of its lock, so that one frame of the journal has it: after a crash
either everything happened or nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Protocol

from leveret.core.errors import DiskFull, TooMany
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel
    from leveret.protocols.amqp.publishing import Publish

# What is collected waits in memory, and no other thread gets the lock while it is committed.
COLLECTED_MAX = 100_000
COLLECTED_BYTES_MAX = 64 << 20

PARTIAL = "partial tx completion"  # a queue refused a publish; the rest is done, as in RabbitMQ
ACKED, REQUEUED = 0, 1  # how a delivery is settled, as in traffic.pxd; else it is rejected


class DeliveryTags(Protocol):
    """The deliveries of a channel that are not settled, in the order of their tags."""

    def __contains__(self, tag: int, /) -> bool: ...

    def tags(self, through: int, after: int = 0) -> list[int]: ...


class Transaction:
    """The open transaction of a channel; there is always one, since a commit begins the next."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.clear()

    def roll_back(self) -> None:
        for publish in self._publishes:
            publish.drop()
        self.clear()

    def clear(self) -> None:
        self._publishes: list[Publish] = []
        self._settlements: dict[int, int] = {}  # delivery tag -> how
        self._settled_through = 0  # a delivery tag: there is nothing more to be settled up to it
        self._bytes = 0

    @property
    def settled(self) -> Collection[int]:
        """The delivery tags that are to be settled: a client that recovers does not want these again."""
        return self._settlements.keys()

    @property
    def counts(self) -> tuple[int, int]:
        return len(self._publishes), len(self._settlements)

    def publish(self, publish: Publish) -> None:
        self._bytes += len(publish.content)
        self._publishes.append(publish)
        self._check_room()

    def settle(self, tag: int, multiple: bool, how: int) -> None:
        """Collect a settlement; what is unknown, or collected already, is refused at once."""
        delivered, tags = self._channel.delivered, [tag]
        if not (tag == 0 and multiple) and (tag not in delivered or tag in self._settlements):
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        if multiple:
            through = tag or self._channel.last_tag
            tags = delivered.tags(through, self._settled_through)  # the others were settled as many before
            self._settled_through = max(through, self._settled_through)
        for each in tags:
            self._settlements.setdefault(each, how)
        self._check_room()

    def _check_room(self) -> None:
        """Refuse to collect without end."""
        count = len(self._publishes) + len(self._settlements)
        if count > COLLECTED_MAX or self._bytes > COLLECTED_BYTES_MAX:
            raise TooMany(
                f"a transaction has at most {COLLECTED_MAX} publishes and acknowledgements and {COLLECTED_BYTES_MAX} "
                "bytes: commit earlier"
            )

    def commit(self) -> None:
        """Do everything, and begin anew; if a full queue refuses a publish the rest is done and the channel closes."""
        publishes, settlements = self._publishes, self._settlements
        if publishes and self._channel.core.journal.full:
            raise DiskFull("the disk is nearly full: free space, or let consumers work; acknowledgements are taken")
        for publish in publishes:
            publish.check_sizes()
        self.clear()
        for number, publish in enumerate(publishes, 1):
            publish.send(number)
        for tag, how in settlements.items():
            if tag in self._channel.delivered:  # else its queue is gone: a recovery has forgotten it
                self._channel.settle_now(tag, how)
        if self._channel.refused:
            self._channel.refused.clear()
            raise ProtocolError(Reply.PRECONDITION_FAILED, PARTIAL)
