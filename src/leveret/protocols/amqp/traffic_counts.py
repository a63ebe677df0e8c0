"""What all channels together have done, those too that are closed: counters that never go back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel
    from leveret.protocols.amqp.connection import AmqpConnection

# What channels count, and what it is called here.
COUNTED = {
    "received": "publishes",
    "received_confirm": "published",
    "confirmed": "confirmed",
    "dropped": "dropped",
    "returned": "returned",
    "empty_gets": "empty_gets",
    "acknowledged": "acks",
    "redelivered": "redeliveries",
}


class TrafficCounts:
    """The counters of channels that are gone; and of all, with those that are there."""

    def __init__(self) -> None:
        self._gone: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))

    def keep(self, channel: Channel) -> None:
        for name, attribute in COUNTED.items():
            self._gone[name] += getattr(channel, attribute)

    def of(self, connections: Iterable[AmqpConnection]) -> dict[str, int]:
        """What was counted so far, and what the channels have before them now."""
        channels = [channel for each in connections for channel in each.channels.values()]
        found = {
            name: self._gone[name] + sum(getattr(channel, attribute) for channel in channels)
            for name, attribute in COUNTED.items()
        }
        found["unacked"] = sum(channel.unacked_count for channel in channels)
        found["unconfirmed"] = sum(channel.published - channel.confirmed for channel in channels)
        found["publishers"] = sum(channel.publishes > 0 for channel in channels)
        return found
