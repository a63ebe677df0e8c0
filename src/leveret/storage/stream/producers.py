"""De-duplication by producer: the last sequence number of each, kept with the log."""

import struct
from collections import OrderedDict

from leveret.core.errors import TooMany

PRODUCERS_MAX = 10_000
"""Names that one partition remembers: a client that makes up names must not take all memory."""
PRODUCER_IDLE_MS = 7 * 86_400_000
"""A producer that was silent for so long may be forgotten to make room for another."""

_ROW = struct.Struct("<BQQ")


class Producers:
    """Producers in the order of their last record."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._last)

    def sequence(self, name: bytes) -> int | None:
        """The last sequence number of a producer; None when it is not known."""
        known = self._last.get(name)
        return None if known is None else known[0]

    def admits(self, name: bytes, sequence: int, now_ms: int) -> bool:
        """Whether a record is new; refuse one more producer when too many were active lately."""
        known = self._last.get(name)
        if known is not None:
            return sequence > known[0]
        if len(self._last) >= PRODUCERS_MAX and next(iter(self._last.values()))[1] > now_ms - PRODUCER_IDLE_MS:
            raise TooMany(
                f"the stream remembers {PRODUCERS_MAX} producers and all were active lately: use fewer producer names"
            )
        return True

    def note(self, name: bytes, sequence: int, now_ms: int) -> None:
        """Remember a record as the last of its producer; the producer that was silent for longest may be forgotten."""
        self._last[name] = (sequence, now_ms)
        self._last.move_to_end(name)
        if len(self._last) > PRODUCERS_MAX:
            self._last.popitem(last=False)

    def forget(self, name: bytes) -> bool:
        """Forget a producer that sends nothing more; False when it was not known."""
        return self._last.pop(name, None) is not None

    def copy(self) -> "Producers":
        """The same, to go on separately."""
        twin = Producers()
        twin._last = self._last.copy()
        return twin

    def pack(self) -> bytes:
        """All of them as bytes: | name_len 1 | sequence 8 | last_ms 8 | name |, in their order."""
        return b"".join(_ROW.pack(len(name), *last) + name for name, last in self._last.items())


def unpack(data: bytes, count: int) -> Producers:
    """The reverse of pack."""
    producers = Producers()
    at = 0
    for _ in range(count):
        name_len, sequence, last_ms = _ROW.unpack_from(data, at)
        at += _ROW.size
        producers.note(data[at : at + name_len], sequence, last_ms)
        at += name_len
    return producers
