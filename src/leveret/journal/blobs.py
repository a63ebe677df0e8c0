"""Large bodies: kept beside the log, in a directory or an object store; the log has a pointer in their stead.

    pointer = {"key": "20260131-<uuid>", "size": bytes, "sha256": hex digits}      JSON, the body of a BLOB message

A blob is durable before its pointer is journaled, and it is deleted after the last settling is durable. A crash between
the two leaves an orphan, which `sweep` removes at the next start. Keys are never used twice.

The local directory is our own, on the Disk port, because a blob must be synced before its pointer is confirmed, and
the local store of obstore (0.12) neither syncs what it puts nor has an option for that. So a file:// URL is as good as
the page cache. Everything else is reached through obstore.
"""

import hashlib
import json
import re
import time
import uuid
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple, Protocol

from leveret.core.errors import DamagedJournal, MessageNotFound
from leveret.journal.disk import TEMPORARY, Bytes, Disk, replace_file

POINTER_BYTES_MAX = 1024
KEY = re.compile(r"\d{8}-[0-9a-f]{32}")


class Pointer(NamedTuple):
    """What a pointer says."""

    key: str
    size: int
    sha256: str


class BlobStore(Protocol):
    """Where blobs lie."""

    def put(self, key: str, body: Bytes) -> None:
        """Store a new blob durably."""

    def get(self, key: str) -> bytes:
        """Read a blob; FileNotFoundError when it is not there."""

    def delete(self, key: str) -> None:
        """Remove a blob; one that is not there is no error."""

    def names(self) -> list[str]:
        """All blobs."""


class LocalBlobs:
    """Blobs as files of one directory."""

    def __init__(self, disk: Disk) -> None:
        """Use a directory that holds nothing else."""
        self._disk = disk

    def put(self, key: str, body: Bytes) -> None:
        """Store a new blob durably."""
        replace_file(self._disk, key, body)

    def get(self, key: str) -> bytes:
        """Read a blob."""
        return self._disk.read_all(key)

    def delete(self, key: str) -> None:
        """Remove a blob."""
        if key in self._disk.names():
            self._disk.unlink(key)

    def names(self) -> list[str]:
        """All blobs, and what is left of those that were being written."""
        return self._disk.names()


class RemoteBlobs:
    """Blobs in an object store."""

    def __init__(self, url: str) -> None:
        """Use what an URL names, for example s3://bucket/prefix."""
        from obstore.store import from_url

        self._store = from_url(url)

    def put(self, key: str, body: Bytes) -> None:
        """Store a new blob; an existing one is never replaced."""
        self._store.put(key, body, mode="create")

    def get(self, key: str) -> bytes:
        """Read a blob."""
        return bytes(self._store.get(key).bytes())

    def delete(self, key: str) -> None:
        """Remove a blob."""
        try:
            self._store.delete(key)
        except FileNotFoundError:
            return

    def names(self) -> list[str]:
        """All blobs."""
        return [str(meta["path"]) for batch in self._store.list() for meta in batch]


class Blobs:
    """Puts large bodies away and fetches them."""

    def __init__(self, store: BlobStore) -> None:
        """Keep blobs in a store."""
        self._store = store
        self._released: deque[tuple[int, str]] = deque()

    def put(self, body: Bytes, now_ms: int) -> bytes:
        """Store a body; give the pointer that stands for it."""
        day = time.strftime("%Y%m%d", time.gmtime(now_ms / 1000))
        key = f"{day}-{uuid.uuid4().hex}"
        self._store.put(key, body)
        return json.dumps({"key": key, "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}).encode()

    def get(self, pointer: Bytes) -> bytes:
        """Fetch the body that a pointer stands for, and verify it."""
        found = parse_pointer(pointer)
        try:
            body = self._store.get(found.key)
        except FileNotFoundError:
            raise MessageNotFound(f"blob {found.key} is missing: restore it, or drop the message") from None
        if len(body) != found.size or hashlib.sha256(body).hexdigest() != found.sha256:
            raise DamagedJournal(f"blob {found.key} is damaged: restore it from a backup")
        return body

    def names(self) -> list[str]:
        """Everything in the store."""
        return self._store.names()

    def release(self, pointer: Bytes, seq: int) -> None:
        """Let a blob go once frame `seq`, which settles its message for the last time, is durable."""
        self._released.append((seq, parse_pointer(pointer).key))

    def delete_released(self, durable: int) -> int:
        """Delete what was released up to a frame; give the number of blobs."""
        count = 0
        while self._released and self._released[0][0] <= durable:
            self._store.delete(self._released[0][1])
            self._released.popleft()
            count += 1
        return count

    def sweep(self, live: Iterable[Bytes]) -> int:
        """Before anything is published: delete blobs that no live pointer names; give the number of blobs."""
        named = {parse_pointer(pointer).key for pointer in live}
        orphans = [key for key in self._store.names() if key not in named]
        for key in orphans:
            self._store.delete(key)
        return len([key for key in orphans if not key.endswith(TEMPORARY)])


def parse_pointer(pointer: Bytes) -> Pointer:
    """Read a pointer; its key is the name of one blob, never a path."""
    try:
        if len(pointer) > POINTER_BYTES_MAX:
            raise ValueError("too long")
        facts = json.loads(bytes(pointer))
        found = Pointer(facts["key"], facts["size"], facts["sha256"])
        if not KEY.fullmatch(found.key):
            raise ValueError("not a key")
    except (ValueError, TypeError, KeyError):
        raise DamagedJournal("a message says that its body is a blob, and names none: drop it") from None
    return found
