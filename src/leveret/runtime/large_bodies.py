"""Large bodies: put into the blob store before their message is published, deleted after it was settled for good.

Several messages may share a blob (a dead letter is published again with the same pointer): the core counts the places
of each, and says which are named no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from leveret.config import Options
from leveret.core.broker import Broker as Core
from leveret.core.errors import BlobStoreFailed, DiskFull, MessageNotFound
from leveret.observability.logs import Log
from leveret.storage.blobs import Blobs, BlobStore, LocalBlobs, RemoteBlobs
from leveret.storage.disk import Disk
from leveret.storage.journal.store import Store
from leveret.storage.options import is_url

if TYPE_CHECKING:
    from leveret.runtime.outgoing import PreparedMessage
    from leveret.runtime.runtime import Runtime

DIRECTORY = "blobs"

LOG = Log("embedded")


def open_blobs(place: str, options: Options, store: Store, shard: int) -> BlobStore:
    """Where large bodies go: an object store, a directory beside the log, or a table beside it."""
    if options.blobs is not None:
        return RemoteBlobs(options.blobs, store.meta.broker)
    if is_url(place):
        from leveret.storage.journal.postgres.blobs import PostgresBlobs

        return PostgresBlobs(place, shard)
    return LocalBlobs(Disk(Path(place) / DIRECTORY))


class LargeBodies:
    """The blobs of one broker."""

    def __init__(self, place: BlobStore, store: Store, core: Core) -> None:
        self._blobs = blobs = Blobs(place, store.options.keys)
        self.get, self.reseal, self.close = blobs.get, blobs.reseal, blobs.close
        self._journal = store.journal
        self._core = core
        live = None
        try:
            if names := self._blobs.names():
                live = core.restorer.count_blobs()
                self._blobs.sweep(names, live, store.confirm_owner)
        except BlobStoreFailed as error:
            # Small messages need no blob store. The next process that opens this finds orphans.
            LOG.warning("large bodies not swept", reason=error)
            if live is None:
                core.restorer.count_blobs()

    def put(self, data: bytes | memoryview, now_ms: int) -> bytes:
        """Store a body durably; give the pointer that is published in its stead."""
        if self._journal.full:
            raise DiskFull("the disk is nearly full: free space, or let consumers work; acknowledgements are taken")
        return self._blobs.put(data, now_ms)

    def drop_unused(self, pointer: bytes) -> None:
        """Let go of a blob whose message was refused or was a duplicate. Under the lock."""
        if pointer not in self._core.engine.blobs:
            self._blobs.release(pointer, 0)

    def release(self) -> bool:
        """Let go of blobs that no message names any more; False when there is nothing to delete. Under the lock."""
        commit_batch = self._journal.pending if self._journal.dirty else self._journal.pending - 1
        for pointer in self._core.engine.take_released():
            self._blobs.release(pointer, commit_batch)
        return self._blobs.has_released

    def delete(self) -> bool:
        """Delete what was released up to the last durable commit batch, not under the lock; False when that must
        wait.
        """
        try:
            self._blobs.delete_released(self._journal.durable)
        except BlobStoreFailed:
            return False
        return True


def is_large(runtime: Runtime, prepared: PreparedMessage) -> bool:
    """Whether the body of a message is kept outside of the log: storing it there takes time."""
    return runtime.large is not None and len(prepared.data) > runtime.blob_bytes


def put_away(runtime: Runtime, prepared: PreparedMessage) -> PreparedMessage:
    """A message with a pointer instead of its body, if that is large."""
    if runtime.large is None or not is_large(runtime, prepared):
        return prepared
    pointer = runtime.large.put(prepared.data, runtime.clock.now_ms())
    return prepared._replace(data=pointer, blob=True)


def drop_unused(runtime: Runtime, prepared: PreparedMessage) -> None:
    """Delete the body that was put away for a message that no queue took. Under the lock."""
    if runtime.large is not None and prepared.blob:
        runtime.large.drop_unused(prepared.data)


def fetch(runtime: Runtime, pointer: bytes) -> bytes:
    """The body that was put away."""
    if runtime.large is None:
        raise MessageNotFound("the body is in a blob store, and this broker has none: drop the message")
    return runtime.large.get(pointer)
