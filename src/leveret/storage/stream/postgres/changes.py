"""What happened to streams in tables and is not stored yet: it goes with the next commit batch of the journal.

staged      by those who append, seal and remove, in their order
taken       sent with a commit batch whose outcome is not known yet; a commit batch that is sent again has the same
"""

import threading
from collections.abc import Callable

from leveret.storage.journal.postgres.stream_table import NewIndex, Removal, SegmentAppend, StreamChange
from leveret.storage.stream.postgres.pages import TableFile

Entry = tuple[TableFile, StreamChange]


class Changes:
    """Changes to all streams of a shard; Beside of leveret.storage.journal.postgres.stream_table is what the
    journal sees of it.
    """

    def __init__(self, on_stored: Callable[[TableFile, SegmentAppend], None]) -> None:
        """Start with none; tell of every piece that is durable."""
        self._on_stored = on_stored
        self._lock = threading.Lock()
        self._staged: list[Entry] = []
        self._taken: list[Entry] | None = None

    @property
    def settled(self) -> bool:
        """Whether everything is stored."""
        return not self._staged and not self._taken

    def stage(self, file: TableFile, change: StreamChange) -> None:
        """Store a change with the next commit batch."""
        with self._lock:
            self._staged.append((file, change))

    def unstage(self, file: TableFile, start: int) -> None:
        """Store nothing of a file that was staged from a position on."""
        with self._lock:
            self._staged = [
                (other, change)
                for other, change in self._staged
                if other is not file or not (isinstance(change, SegmentAppend) and change.start >= start)
            ]

    def remove(self, file: TableFile) -> bool:
        """Store nothing more of a file, and remove it with the next commit batch; False: it is not stored, and never
        will be.

        What was taken is stored, or will be: then it has to be removed, too.
        """
        with self._lock:
            self._staged = [entry for entry in self._staged if entry[0] is not file]
            there = bool(file.stored) or any(other is file for other, _ in self._taken or ())
            if there:
                self._staged.append((file, Removal(file.key)))
            return there

    def has(self, file: TableFile) -> bool:
        """Whether something of a file is not stored yet."""
        return any(other is file for other, _ in self._all())

    def index(self, file: TableFile) -> bytes | None:
        """The newest index of a file, if it is not stored yet."""
        found = [change.data for other, change in self._all() if other is file and isinstance(change, NewIndex)]
        return bytes(found[-1]) if found else None

    def _all(self) -> list[Entry]:
        with self._lock:
            return [*(self._taken or ()), *self._staged]

    # Beside

    def take(self) -> list[StreamChange]:
        with self._lock:
            if self._taken is None:
                self._taken, self._staged = self._staged, []
            return [change for _, change in self._taken]

    def stored(self) -> None:
        for file, change in self._taken or ():
            if isinstance(change, SegmentAppend):
                self._on_stored(file, change)
        with self._lock:
            self._taken = None  # only now: until its file is known to be stored, a change counts as on its way
