"""Large bodies: put into the blob store before their message is published, deleted after it was settled for good.

Several messages may share a blob (a dead letter is published again with the same pointer), so a settled one only makes
its pointer a candidate: housekeeping deletes those that no queue holds any more. What expires or is purged without
being taken is swept at the next start.
"""

from pathlib import Path

from leveret.config import Options
from leveret.core.broker import Broker as Core
from leveret.embedded.pointers import live_pointers
from leveret.journal.blobs import Blobs, LocalBlobs, RemoteBlobs
from leveret.journal.disk import Disk
from leveret.journal.files import FileJournal

DIRECTORY = "blobs"


class LargeBodies:
    """The blobs of one broker on files."""

    def __init__(self, path: str, options: Options, core: Core) -> None:
        """Open the store and remove what a crash left there."""
        local = options.blobs is None
        self._blobs = Blobs(LocalBlobs(Disk(Path(path) / DIRECTORY)) if local else RemoteBlobs(str(options.blobs)))
        self._core = core
        self._settled: set[bytes] = set()
        self._blobs.sweep(live_pointers(core))

    def put(self, data: bytes, now_ms: int) -> bytes:
        """Store a body durably; give the pointer that is published in its stead."""
        return self._blobs.put(data, now_ms)

    def get(self, pointer: bytes) -> bytes:
        """The body of a pointer."""
        return self._blobs.get(pointer)

    def settled(self, pointers: set[bytes]) -> None:
        """Messages with these pointers left a queue; under the lock."""
        self._settled |= pointers

    def release(self, journal: FileJournal) -> bool:
        """Let go of blobs that no queue holds any more; False when there is none. Under the lock."""
        gone = self._settled - live_pointers(self._core) if self._settled else set()
        self._settled.clear()
        frame = journal.pending if journal.dirty else journal.pending - 1
        for pointer in gone:
            self._blobs.release(pointer, frame)
        return bool(gone)

    def delete(self, durable: int) -> None:
        """Delete what was released up to a durable frame; not under the lock."""
        self._blobs.delete_released(durable)
