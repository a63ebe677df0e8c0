"""A place in one partition of a stream on a server, without a connection: reads as requests and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from leveret.client import stream_calls
from leveret.client.calls import ClientCall
from leveret.client.record import RemoteRecord
from leveret.client.stream_calls import FetchedRecords
from leveret.embedded.records import Place

WAIT_S_MAX = 60  # of one request, as the server has it


class RemoteCursor:
    """What the readers for threads and for asyncio share."""

    def __init__(
        self,
        stream: str,
        partition: int,
        place: Place,
        filters: Iterable[str] | None = None,
        match_unfiltered: bool = False,
    ) -> None:
        self.partition = partition
        self.offset = place if isinstance(place, int) else 0
        """Of the next record, or an earlier one."""
        self._stream = stream
        self._place: Place = place
        self._options: dict[str, str] = {}
        if filters is not None:
            self._options = {"filters": ",".join(filters), "match_unfiltered": str(match_unfiltered).lower()}

    def read(self, max_records: int, max_bytes: int, wait_s: float) -> ClientCall[FetchedRecords]:
        """Read what comes next."""
        return stream_calls.read(
            self._stream,
            self.partition,
            self._place,
            wait_s,
            max_records=max_records,
            max_bytes=max_bytes,
            **self._options,
        )

    def take(self, piece: FetchedRecords) -> list[RemoteRecord]:
        """Go on after what was read."""
        self._place = self.offset = piece.next_offset
        return piece.records

    def find(self, piece: FetchedRecords) -> None:
        """Go to what was read."""
        self._place = self.offset = piece.records[0].offset if piece.records else piece.next_offset


class Placed:
    """A reader with a cursor."""

    def __init__(self, cursor: RemoteCursor) -> None:
        self._cursor = cursor

    @property
    def partition(self) -> int:
        """Which one it reads."""
        return self._cursor.partition

    @property
    def offset(self) -> int:
        """The offset of the next record that it gives, or a later one."""
        return self._cursor.offset


def waits(wait_s: float) -> Iterator[float]:
    """A long wait as waits of one request each; at least one."""
    yield min(wait_s, WAIT_S_MAX)
    while wait_s > WAIT_S_MAX:
        wait_s -= WAIT_S_MAX
        yield min(wait_s, WAIT_S_MAX)
