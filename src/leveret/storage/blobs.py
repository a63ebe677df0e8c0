"""Large bodies: kept beside the log, in a directory or an object store; the log has a pointer in their stead.

    pointer = {"key": "20260131-<uuid>", "size": bytes, "sha256": hex digits}      JSON, the body of a BLOB message
    encrypted      the blob is a sealed box (encryption.py), whose key is derived for the key of the blob; the pointer
                   has a "key_id" too
    before that    | nonce 12 | body | tag 16 |, by the master key with the id in the pointer, bound to its key
    How long a blob is says which of the three it is, so that it can be encrypted anew in its place.

A blob is durable before its pointer is journaled, and it is deleted after the last settling is durable. A crash between
the two leaves an orphan, which `sweep` removes at the next start. Keys are never used twice.

The local directory is our own, on the Disk port, because a blob must be synced before its pointer is confirmed, and
the local store of obstore (0.12) neither syncs what it puts nor has an option for that. So a file:// URL is as good as
the page cache. Everything else is reached through obstore, each broker below a prefix of its own: what one of them
sweeps must not be what another one lives on.

A blob that cannot be stored harms only its sender: no pointer to it was journaled.
"""

import hashlib
import json
import re
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, Protocol

from leveret.core.errors import BlobStoreFailed, DamagedJournal, DiskFull, InvalidArgument, MessageNotFound
from leveret.storage.disk import TEMPORARY, Bytes, Disk, NoRoom, replace_file
from leveret.storage.encryption import (
    BOX_BYTES,
    NONCE_BYTES,
    PLAIN,
    TAG_BYTES,
    KeyRef,
    MasterKeys,
    box_key,
    seal,
    unseal,
)

POINTER_BYTES_MAX = 1024
RETRIES = 3
RETRY_TIME = timedelta(seconds=20)
"""A sender waits for the store: better an error than minutes of silence."""
KEY = re.compile(r"\d{8}-[0-9a-f]{32}")
OURS = re.compile(KEY.pattern + f"({re.escape(TEMPORARY)})?")
"""What a sweep may delete: a bucket may hold other things too."""


class BlobPointer(NamedTuple):
    """What a pointer says."""

    key: str
    size: int
    sha256: str
    key_id: bytes


class BlobStore(Protocol):
    """Where blobs lie."""

    def put(self, key: str, body: Bytes) -> None:
        """Store a new blob durably."""

    def replace(self, key: str, body: Bytes) -> None:
        """Store other bytes in the place of a blob, durably; readers see the old ones or the new ones."""

    def get(self, key: str) -> bytes:
        """Read a blob; FileNotFoundError when it is not there."""

    def delete(self, key: str) -> None:
        """Remove a blob; one that is not there is no error."""

    def names(self) -> list[str]:
        """All blobs."""

    def close(self) -> None:
        """Let go of it."""


class LocalBlobs:
    """Blobs as files of one directory."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def put(self, key: str, body: Bytes) -> None:
        """Store a new blob durably, or leave nothing of it."""
        try:
            replace_file(self._disk, key, body)
        except OSError as error:
            self.delete(key + TEMPORARY)
            kind = DiskFull if isinstance(error, NoRoom) else BlobStoreFailed
            raise kind(f"a large body of {len(body)} bytes was not stored: {error}; free or repair the disk") from error

    def replace(self, key: str, body: Bytes) -> None:
        self.put(key, body)

    def get(self, key: str) -> bytes:
        with _telling("read", OSError):
            return self._disk.read_all(key)

    def delete(self, key: str) -> None:
        try:
            with _telling("delete", OSError):
                self._disk.unlink(key)
        except FileNotFoundError:
            return

    def names(self) -> list[str]:
        """All blobs, and what is left of those that were being written."""
        return self._disk.names()

    def close(self) -> None:
        """Nothing is open."""


class RemoteBlobs:
    """Blobs in an object store."""

    def __init__(self, url: str, prefix: str) -> None:
        """Use what an URL names, for example s3://bucket/path, and of that only what is below a prefix."""
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        self._error = BaseError
        place = f"{url.rstrip('/')}/{prefix}"
        try:
            if place.startswith("file:"):
                self._store = self._listed = from_url(place, mkdir=True)
            else:
                self._store = from_url(place, retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_TIME})
                # Opening a broker waits for the list, and can do without.
                self._listed = from_url(place, retry_config={"max_retries": 0, "retry_timeout": RETRY_TIME})
        except (BaseError, ValueError) as error:
            raise InvalidArgument(f"blobs is no URL of an object store: {_first_line(error)}") from None

    def put(self, key: str, body: Bytes) -> None:
        """Store a new blob; an existing one is never replaced."""
        with _telling("store", self._error):
            self._store.put(key, body, mode="create")

    def replace(self, key: str, body: Bytes) -> None:
        with _telling("replace", self._error):
            self._store.put(key, body, mode="overwrite")

    def get(self, key: str) -> bytes:
        with _telling("read", self._error):
            return bytes(self._store.get(key).bytes())

    def delete(self, key: str) -> None:
        try:
            with _telling("delete", self._error):
                self._store.delete(key)
        except FileNotFoundError:
            return

    def names(self) -> list[str]:
        with _telling("list", self._error):
            return [str(meta["path"]) for batch in self._listed.list() for meta in batch]

    def close(self) -> None:
        """Connections are kept by the library."""


class Blobs:
    """Puts large bodies away and fetches them."""

    def __init__(self, store: BlobStore, keys: MasterKeys | None = None) -> None:
        self._store = store
        self.names, self.close = store.names, store.close
        self._keys = keys or MasterKeys()
        self._released: deque[tuple[int, str]] = deque()

    def put(self, body: Bytes, now_ms: int) -> bytes:
        """Store a body; give the pointer that stands for it."""
        day = time.strftime("%Y%m%d", time.gmtime(now_ms / 1000))
        key = f"{day}-{uuid.uuid4().hex}"
        facts = {"key": key, "size": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        if self._keys:
            facts["key_id"] = self._keys.writing.hex()
            body = seal(self._keys, _info(key), body)
        self._store.put(key, body)
        return json.dumps(facts).encode()

    def get(self, pointer: Bytes) -> bytes:
        """Fetch the body that a pointer stands for, and verify it."""
        found = parse_pointer(pointer)
        return self._verified(found, self._stored(found))

    def _stored(self, found: BlobPointer) -> bytes:
        try:
            return self._store.get(found.key)
        except FileNotFoundError:
            raise MessageNotFound(f"blob {found.key} is missing: restore it, or drop the message") from None

    def _verified(self, found: BlobPointer, stored: bytes) -> bytes:
        body = self._opened(found, stored)
        if hashlib.sha256(body).hexdigest() != found.sha256:
            raise DamagedJournal(f"blob {found.key} is damaged: restore it from a backup")
        return body

    def reseal(self, pointer: Bytes) -> bool:
        """Encrypt a blob anew by the first key, in its place; False: that is its key already."""
        found = parse_pointer(pointer)
        if found.key_id == self._keys.writing:
            return False
        stored = self._stored(found)
        if len(stored) == found.size + BOX_BYTES and self._keys.is_current(box_key(stored)):
            return False
        self._store.replace(found.key, seal(self._keys, _info(found.key), self._verified(found, stored)))
        return True

    def _opened(self, found: BlobPointer, stored: bytes) -> bytes:
        """A body as it was put, by how long it lies in the store."""
        overhead_bytes = len(stored) - found.size
        if overhead_bytes == BOX_BYTES:
            return unseal(self._keys, _info(found.key), stored)
        if overhead_bytes == NONCE_BYTES + TAG_BYTES and found.key_id != PLAIN:
            cipher = self._keys.cipher(KeyRef(found.key_id), b"")
            return cipher.decrypt(stored[:NONCE_BYTES], stored[NONCE_BYTES:], found.key.encode())
        if overhead_bytes != 0:
            raise DamagedJournal(f"blob {found.key} is damaged: restore it from a backup")
        return stored

    def release(self, pointer: Bytes, seq: int) -> None:
        """Let a blob go once commit batch `seq`, which settles its message for the last time, is durable."""
        self._released.append((seq, parse_pointer(pointer).key))

    @property
    def has_released(self) -> bool:
        return bool(self._released)

    def delete_released(self, durable: int) -> int:
        """Delete what was released up to a commit batch; give the number of blobs."""
        count = 0
        while self._released and self._released[0][0] <= durable:
            self._store.delete(self._released[0][1])
            self._released.popleft()
            count += 1
        return count

    def sweep(self, names: list[str], live: Iterable[Bytes], confirm: Callable[[], None] = lambda: None) -> int:
        """Before anything is published: delete those of all blobs that no live pointer names; give their number.

        `confirm` raises when another owner has taken over: what was listed before that is not this one's.
        """
        named = {parse_pointer(pointer).key for pointer in live}
        orphans = [key for key in names if key not in named and OURS.fullmatch(key)]
        confirm()
        for key in orphans:
            self._store.delete(key)
        return len([key for key in orphans if not key.endswith(TEMPORARY)])


def _info(key: str) -> bytes:
    """What the key of a blob is derived for."""
    return b"leveret blob " + key.encode()


def parse_pointer(pointer: Bytes) -> BlobPointer:
    """Read a pointer; its key is the name of one blob, never a path."""
    try:
        if len(pointer) > POINTER_BYTES_MAX:
            raise ValueError("too long")
        facts = json.loads(bytes(pointer))
        found = BlobPointer(
            facts["key"], facts["size"], facts["sha256"], bytes.fromhex(facts.get("key_id", PLAIN.hex()))
        )
        if not KEY.fullmatch(found.key):
            raise ValueError("not a key")
    except (ValueError, TypeError, KeyError):
        raise DamagedJournal("a message says that its body is a blob, and names none: drop it") from None
    return found


def body_bytes(pointer: Bytes) -> int:
    """The size of the body that a pointer stands for; 0 if it names none, which a fetch of it reports."""
    try:
        return parse_pointer(pointer).size
    except DamagedJournal:
        return 0


@contextmanager
def _telling(what: str, kind: type[Exception]) -> Iterator[None]:
    """Pass errors of a store on as ours; a blob that is not there is an answer, not an error."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (kind, OSError) as error:
        advice = "see to the store and try again"
        raise BlobStoreFailed(f"the blob store did not {what} a body: {_first_line(error)}; {advice}") from error


def _first_line(error: Exception) -> str:
    """What an error of obstore says, without its debug output."""
    return str(error).partition("\n")[0]
