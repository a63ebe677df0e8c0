"""Staged pieces: files in a directory of their own, or on a folder, durable before they are acknowledged.

    name    <user, then sink, 16 hexadecimal digits each>.<part>.<number of the piece>
    file    | magic "LVS1" | u32 crc32c of the name and of all that follows | 0 16 | piece as it came |
    or      | magic "LVS2" | u32 crc32c of the same | sealed box of the piece (storage/encryption.py) |
    or      | magic "LVS1" | u32 crc32c of the same | id of the master key 16 | nonce 12 | piece | tag 16 |, formerly

What is encrypted is bound to its name. A folder encrypts what is put there itself.

A part belongs to one attempt of one task, and its name is never used twice: what an attempt leaves behind that did not
win is dropped when the batch is aborted, or when it is too old.
"""

import re
import struct
import threading
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Protocol

from leveret.core import browse
from leveret.core.broker import Broker as Core
from leveret.core.errors import (
    BrokerClosed,
    DamagedJournal,
    DiskFull,
    InvalidArgument,
    JournalError,
    LeveretError,
    NotFound,
    PreconditionFailed,
)
from leveret.core.names import INTERNAL_VHOST
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.ingest.commit_log import CommittedPart, Sink
from leveret.ingest.quota import Quota, digest_of
from leveret.runtime.runtime import Runtime
from leveret.storage.blobs import body_bytes
from leveret.storage.disk import NO_ROOM, TEMPORARY, Disk, read_start, replace_file
from leveret.storage.encryption import BOX_BYTES, KEY_ID_BYTES, NONCE_BYTES, PLAIN, KeyRef, MasterKeys, seal, unseal
from leveret.storage.journal.records import crc32c

MAGIC, SEALED_MAGIC = b"LVS1", b"LVS2"
HEAD = struct.Struct(f"<4sI{KEY_ID_BYTES}s")
CHECKED_AT = 8
SINK_BYTES = 16
PART = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME = re.compile(r"([0-9a-f]{32})\.([A-Za-z0-9_-]{1,64})\.(\d{1,5})")
PIECES_MAX = 10_000  # of one part
QUEUE_NAME = "staging"
PAGE_MESSAGES = 1_000  # messages that are looked at in one go


@dataclass(slots=True)
class Staged:
    """The pieces of one part, with their sizes."""

    used_ms: int
    row_groups: dict[int, int] = field(default_factory=dict)


class StagingFolder(Protocol):
    """Where files are."""

    encrypts: bool
    """Whether what is put there is encrypted on its way."""

    def names(self) -> list[str]: ...  # what is there
    def size(self, name: str) -> int: ...  # in bytes
    def read_all(self, name: str) -> bytes: ...  # all of a file; FileNotFoundError: it is not there
    def write(self, name: str, *parts: bytes) -> None:
        """Have a file durably, in the place of the one that has its name."""

    def unlink(self, name: str) -> None: ...  # remove a file; FileNotFoundError: it is not there


class Folder:
    """A directory of files."""

    encrypts = False

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.names = disk.names
        self.size = disk.size
        self.read_all = disk.read_all
        self.unlink = disk.unlink

    def write(self, name: str, *parts: bytes) -> None:
        replace_file(self._disk, name, *parts)


class Staging:
    """The staged parts of all sinks. Safe for threads: writing and reading wait for the disk."""

    def __init__(self, place: StagingFolder, keys: MasterKeys, quota: Quota, now_ms: int) -> None:
        """Take up what is there; it counts as new."""
        self._place = place
        self._keys = keys
        self._quota = quota
        self._closed = False
        self._lock = threading.Condition()
        self._writing: set[tuple[str, str, int]] = set()
        self._claimed: set[tuple[str, str]] = set()
        self._sinks: dict[str, dict[str, Staged]] = {}
        for name in place.names():
            known = NAME.fullmatch(name)
            if name.endswith(TEMPORARY):
                place.unlink(name)
            elif known is not None:
                staged = self._sinks.setdefault(known[1], {}).setdefault(known[2], Staged(now_ms))
                size = staged.row_groups[int(known[3])] = place.size(name)
                quota.add(known[1], size, 1)

    def close(self) -> None:
        """Count nothing any more: the next owner of the shard counts what is staged in it."""
        with self._lock:
            self._closed = True
            for digest, parts in self._sinks.items():
                sizes = [size for staged in parts.values() for size in staged.row_groups.values()]
                self._quota.add(digest, -sum(sizes), -len(sizes))

    def put(self, sink: Sink, part: str, row_group: int, data: bytes, now_ms: int) -> None:
        """Store a piece durably; the same one again takes the place of the first."""
        if PART.fullmatch(part) is None:
            raise InvalidArgument("a part has a name of 1 to 64 letters, digits, _ and -: choose another one")
        if not 0 <= row_group < PIECES_MAX:
            raise InvalidArgument(f"pieces are numbered from 0 to {PIECES_MAX - 1}, not {row_group}: make larger ones")
        digest = self._key(sink)
        name, key = _name(digest, part, row_group), (digest, part, row_group)
        with self._lock:
            # A client that lost an answer may send the piece again before the first one is written.
            self._lock.wait_for(lambda: key not in self._writing)
            self._reserve(digest, part, row_group, CHECKED_AT + BOX_BYTES + len(data), now_ms)
            self._writing.add(key)
        try:
            self._place.write(name, *self._sealed(name, data))
        except LeveretError:
            self._remove(*key)
            raise
        except OSError as error:
            self._remove(*key)
            if error.errno in NO_ROOM:
                raise DiskFull(
                    "the disk is full: free space, or let consumers work; then send the piece again"
                ) from None
            raise JournalError(f"a piece could not be staged ({error}): see to the disk of the server") from error
        finally:
            with self._lock:
                self._writing.discard(key)
                self._lock.notify_all()

    def _reserve(self, digest: str, part: str, row_group: int, size: int, now_ms: int) -> None:
        """Count a piece before it is written; refuse what is over a limit. Under the lock."""
        if (digest, part) in self._claimed:
            raise PreconditionFailed(f"part '{part}' is being committed: write under another name")
        if self._closed:
            raise BrokerClosed("another node has taken the shard of this sink over: send the piece again")
        known = self._sinks.get(digest, {}).get(part)
        before = None if known is None else known.row_groups.get(row_group)
        self._quota.take(digest, size - (before or 0), before is None)
        staged = self._sinks.setdefault(digest, {}).setdefault(part, Staged(now_ms))
        staged.used_ms = now_ms
        staged.row_groups[row_group] = size

    def read(self, sink: Sink, part: str, row_group: int) -> bytes:
        name = _name(self._key(sink), part, row_group)
        try:
            data = self._place.read_all(name)
        except FileNotFoundError:
            raise DamagedJournal(f"{name} is not among the staged files: restore the data directory") from None
        if len(data) < HEAD.size:
            raise DamagedJournal(f"{name} is too short: restore the data directory")
        magic, crc, key_id = HEAD.unpack_from(data)
        if magic not in (MAGIC, SEALED_MAGIC) or crc != crc32c(data[CHECKED_AT:], crc32c(name.encode())):
            raise DamagedJournal(f"{name} is not as it was written: restore the data directory")
        if magic == SEALED_MAGIC:
            return unseal(self._keys, _info(name), data[CHECKED_AT:])
        content = data[HEAD.size :]
        if key_id == PLAIN:
            return content
        cipher = self._keys.cipher(KeyRef(key_id), b"")
        return cipher.decrypt(content[:NONCE_BYTES], content[NONCE_BYTES:], name.encode())

    def _sealed(self, name: str, data: bytes) -> tuple[bytes, bytes]:
        sealed = bool(self._keys) and not self._place.encrypts
        rest = seal(self._keys, _info(name), data) if sealed else PLAIN + data
        crc = crc32c(rest, crc32c(name.encode()))
        return struct.pack("<4sI", SEALED_MAGIC if sealed else MAGIC, crc), rest

    def claim(self, sink: Sink, shares: Collection[CommittedPart]) -> None:
        """Keep parts as they are until they are released; refuse if a piece of one is missing."""
        digest = self._key(sink)
        parts = {share.part for share in shares}
        with self._lock:
            self._lock.wait_for(lambda: not any(key[0] == digest and key[1] in parts for key in self._writing))
            for share in shares:
                staged = self._sinks.get(digest, {}).get(share.part)
                # By their number first: a client may name 10,000 parts of 10,000 pieces each.
                row_groups = {} if staged is None else staged.row_groups
                if len(row_groups) < share.row_groups or not all(
                    row_group in row_groups for row_group in range(share.row_groups)
                ):
                    raise NotFound(
                        f"part '{share.part}' of sink '{sink.name}' is not staged, or was too old: write it again"
                    )
            self._claimed |= {(digest, share.part) for share in shares}

    def release(self, sink: Sink, shares: Collection[CommittedPart]) -> None:
        """Give up a claim."""
        with self._lock:
            digest = self._key(sink)
            self._claimed -= {(digest, share.part) for share in shares}

    def drop(self, sink: Sink, parts: Collection[str]) -> None:
        """Remove parts, but for those that are claimed; those that are not there are no error."""
        digest = self._key(sink)
        with self._lock:
            gone = [each for part in parts for each in self._not_claimed(digest, part)]
        for each in gone:
            self._remove(*each)

    def sweep(self, now_ms: int) -> int:
        """Remove the pieces of parts that were not used for long; give their number."""
        until_ms = now_ms - self._quota.limits.age_ms
        with self._lock:
            old = [
                (digest, part)
                for digest, parts in self._sinks.items()
                for part, staged in parts.items()
                if staged.used_ms < until_ms
            ]
            gone = [each for digest, part in old for each in self._not_claimed(digest, part)]
        for each in gone:
            self._remove(*each)
        return len(gone)

    def _not_claimed(self, digest: str, part: str) -> list[tuple[str, str, int]]:
        """The pieces of a part, if it may go."""
        staged = self._sinks.get(digest, {}).get(part)
        if staged is None or (digest, part) in self._claimed:
            return []
        return [(digest, part, row_group) for row_group in staged.row_groups]

    def bytes_of(self, sink: Sink) -> int:
        return self._quota.bytes_of(self._key(sink))

    def _key(self, sink: Sink) -> str:
        """The sink in names of files; files of an older version keep their names as long as the sink has such."""
        legacy = _legacy_digest(sink)
        return legacy if legacy in self._sinks else digest_of(sink)

    def _remove(self, digest: str, part: str, row_group: int) -> None:
        """Forget a piece and remove its file."""
        for name in (_name(digest, part, row_group), _name(digest, part, row_group) + TEMPORARY):
            try:
                self._place.unlink(name)
            except FileNotFoundError:
                continue
        with self._lock:
            parts = self._sinks.get(digest, {})
            if part in parts:
                size = parts[part].row_groups.pop(row_group, None)
                if size is not None and not self._closed:
                    self._quota.add(digest, -size, -1)
                if not parts[part].row_groups:
                    del parts[part]
            if not parts:
                self._sinks.pop(digest, None)


def staged_keys(disk: Disk) -> Counter[str]:
    """How many pieces in a directory each master key encrypts, by its id."""
    found: Counter[str] = Counter()
    for name in filter(NAME.fullmatch, disk.names()):
        try:
            head = read_start(disk, name, HEAD.size)
        except FileNotFoundError:
            continue  # it was committed or dropped meanwhile
        if len(head) == HEAD.size and head[CHECKED_AT:] != PLAIN:
            found[head[CHECKED_AT:].hex()] += 1
    return found


def _legacy_digest(sink: Sink) -> str:
    """How versions before quotas of users named the files of a sink."""
    return blake2b("\0".join(sink).encode(), digest_size=SINK_BYTES).hexdigest()


def _info(name: str) -> bytes:
    """What the key of a piece is derived for."""
    return b"leveret staged piece " + name.encode()


def _name(digest: str, part: str, row_group: int) -> str:
    return f"{digest}.{part}.{row_group}"


class BlobFolder:
    """Staged pieces where the next owner of a shard finds them; who writes, reads and removes waits for its store.

    Each piece is a blob, and a message of a queue points to it. The queue is in a virtual host of its own: no client
    can name it. A blob that no message points to is removed when the broker is opened, as that of any message that was
    never published.
    """

    encrypts = True  # a blob is, if there are keys

    def __init__(self, runtime: Runtime) -> None:
        assert runtime.large is not None, "a broker in memory has nowhere to stage"
        self._runtime = runtime
        self._large = runtime.large
        self._kept: dict[str, tuple[int, bytes]] = {}  # the number of a message, and the pointer in it
        with self._runtime as core:
            queue = _queue(core)
            cursor: browse.Cursor | None = ()
            while cursor is not None:
                found, cursor = browse.ready_after(queue, cursor, PAGE_MESSAGES)
                for held in found:
                    message = browse.read(held)
                    self._kept[str(message.properties.message_id)] = held.seq, message.body

    def names(self) -> list[str]:
        return list(self._kept)

    def size(self, name: str) -> int:
        return body_bytes(self._kept[name][1])

    def read_all(self, name: str) -> bytes:
        return self._large.get(self._known(name)[1])

    def write(self, name: str, *parts: bytes) -> None:
        """Have a file durably, in the place of the one that has its name."""
        pointer = self._large.put(b"".join(parts), self._runtime.clock.now_ms())
        with self._runtime as core:
            queue = _queue(core)
            try:
                seq = core.publish([queue], queue.route, *content(Properties(message_id=name), pointer), blob=True)
            except LeveretError:
                self._large.drop_unused(pointer)
                raise
            if name in self._kept:
                browse.ack_waiting(queue, self._kept[name][0])
            self._kept[name] = seq, pointer
            commit_batch = self._runtime.commit()
        self._runtime.wait(commit_batch)

    def unlink(self, name: str) -> None:
        with self._runtime as core:
            browse.ack_waiting(_queue(core), self._known(name)[0])
            del self._kept[name]
            self._runtime.commit()

    def _known(self, name: str) -> tuple[int, bytes]:
        if name not in self._kept:
            raise FileNotFoundError(name)
        return self._kept[name]


def _queue(core: Core) -> Queue:
    """The queue, made when it is first needed."""
    if INTERNAL_VHOST not in core.topology.vhosts:
        core.declare_vhost(INTERNAL_VHOST)
    known = core.topology.vhosts[INTERNAL_VHOST].queues.get(QUEUE_NAME)
    return core.declare_queue(INTERNAL_VHOST, QUEUE_NAME) if known is None else known
