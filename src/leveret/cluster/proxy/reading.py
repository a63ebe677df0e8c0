"""How far a consumer of a stream has come: when its shard has another owner, it goes on there with the next record.

Where a delivery was read stands at the end of its headers (drawn in protocols/amqp/subscriber.pyx).
"""

from collections.abc import Callable, Mapping
from typing import Any

from leveret.clock import ticks_us
from leveret.core.consumer_arguments import OFFSET, OFFSETS

NEWEST = ("next", "last")
PROPERTIES_AT, FLAGS_AT = 14, 12  # in a content header
BEFORE_HEADERS = (0x80, 0x40)  # flags of short texts that come before the table of headers
OFFSET_ENTRY = b"\x0fx-stream-offsetl"
PARTITION_ENTRY = b"\x12x-stream-partitionl"
NUMBER_BYTES = 8


def place_of(header: bytes) -> tuple[int, int] | None:
    """The partition and the offset that a delivery was read at; None when it does not say."""
    at = PROPERTIES_AT
    for flag in BEFORE_HEADERS:
        if header[FLAGS_AT] & flag:
            at += 1 + header[at]
    end = at + 4 + int.from_bytes(header[at : at + 4], "big")
    partition = _number(header, end, PARTITION_ENTRY)
    if partition is not None:
        end -= len(PARTITION_ENTRY) + NUMBER_BYTES
    offset = _number(header, end, OFFSET_ENTRY)
    return None if offset is None else (partition or 0, offset)


def _number(header: bytes, end: int, entry: bytes) -> int | None:
    """The number of the entry that ends there, if it is this one."""
    at = end - NUMBER_BYTES
    return int.from_bytes(header[at:end], "big") if header[at - len(entry) : at] == entry else None


class Reading:
    """The place of one consumer, in each partition that it reads."""

    def __init__(self, arguments: Mapping[str, Any], partitions: int, ticks: Callable[[], int] = ticks_us) -> None:
        """Begin where a consumer asked for, in a stream with so many partitions."""
        self._asked = arguments
        self._partitions = partitions
        self._ticks = ticks
        self._began_us = ticks()
        self._next: dict[int, int] = {}

    def delivered(self, header: bytes) -> None:
        """A record was handed to the client."""
        place = place_of(header)
        if place is not None:
            self._next[place[0]] = place[1] + 1

    def arguments(self) -> dict[str, Any]:
        """What to ask the next owner for: to go on behind what was delivered."""
        starts = self._asked.get(OFFSETS, [self._asked.get(OFFSET, "next")] * self._partitions)
        return {**self._asked, OFFSETS: [self._next.get(at, self._start(each)) for at, each in enumerate(starts)]}

    def _start(self, asked: object) -> object:
        """Where to begin where nothing was delivered: what was to come then may be there now."""
        waited_s = (self._ticks() - self._began_us) // 1_000_000
        return f"{waited_s + 1}s" if asked in NEWEST else asked
