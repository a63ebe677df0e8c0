"""Rotation of the encryption key: everything that another key encrypts, or none, is encrypted by the first one.

    journal      the live records of older segments are copied into new ones, and the segments removed (compaction)
    history      segments in files are written anew; those in a database are left until they go
    checkpoint   a new one is written
    streams      segments in files are written anew; those in a database go with the retention of their streams
    bodies       large bodies are replaced
    META         forgets the keys that nothing needs any more: only now may they be removed from the key file

Each step is bounded and leaves a store that can be opened with the same keys, whatever happens in the middle of it. A
rotation that ends early is simply begun again: it finds what is left. It runs in the thread of the housekeeper.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from leveret.core.errors import DiskFull, InvalidArgument, JournalFailed, LeveretError
from leveret.observability.logs import Log
from leveret.storage.disk import NO_ROOM, Disk
from leveret.storage.encryption import PLAIN
from leveret.storage.journal.files.segments import read_header, segment_numbers

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

OtherKeys = Callable[[], Mapping[str, int]]
"""Counts what others have encrypted, by the ids of their keys; it is not encrypted anew."""

BODIES = 20  # that one step encrypts

LOG = Log("embedded")


@dataclass
class RotationProgress:
    """How far a rotation is; the counts are of what is left."""

    state: str = "running"
    """running, done or failed"""
    key: str = ""
    segments: int = 0
    history: int = 0
    stream_segments: int = 0
    bodies: int = 0
    total: int = 0
    needed: dict[str, str] = field(default_factory=dict)
    """Keys that are needed beside the first one when it is done, and for what."""
    archived: dict[str, int] = field(default_factory=dict)
    """Segments in the archive directory, by the id of their key: they are not encrypted anew."""
    removable: list[str] = field(default_factory=list)
    problem: str = ""

    @property
    def left(self) -> int:
        """Objects that are to be encrypted anew."""
        return self.segments + self.history + self.stream_segments + self.bodies


class Rotation:
    """One run over a broker. `step` comes from one thread, `progress` may be read from any."""

    def __init__(self, runtime: Runtime, other_keys: OtherKeys) -> None:
        """Begin; nothing is done yet."""
        store = runtime.store
        if store is None or not store.options.keys:
            raise InvalidArgument(
                "nothing is encrypted here: give the new key as the first one by encryption_key_file or "
                "encryption_key_env, and start again"
            )
        self._runtime = runtime
        self._store = store
        self._other_keys = other_keys
        self.progress = RotationProgress(key=store.options.keys.writing.hex())
        self._steps = self._run()

    def step(self) -> bool:
        """Do a bounded piece; False when there is nothing more to do."""
        if self.progress.state != "running":
            return False
        try:
            next(self._steps)
        except StopIteration:
            self.progress.state = "done"
            LOG.info("encryption key rotated", key=self.progress.key, removable=self.progress.removable)
        except JournalFailed:
            raise
        except (LeveretError, OSError) as error:
            no_room = isinstance(error, OSError) and error.errno in NO_ROOM
            self.progress.state = "failed"
            self.progress.problem = "the disk is full: free space" if no_room else str(error)
            LOG.warning("encryption key not rotated", reason=self.progress.problem)
        return self.progress.state == "running"

    def _run(self) -> Iterator[None]:
        progress = self.progress
        streams, in_tables = self._runtime.streams.foreign_segments()
        yield
        foreign = self._store.foreign_segments()
        with self._runtime.lock:
            pointers = list(self._runtime.core.engine.blobs) if self._runtime.large is not None else []
        until = foreign[-1] if foreign else 0
        progress.segments, progress.stream_segments = len(foreign), len(streams)
        progress.bodies = len(pointers)
        progress.total = progress.left
        yield
        yield from self._compact(until)
        history = self._store.foreign_history()
        progress.history, progress.total = len(history), progress.total + len(history)
        for segment in history:
            self._check_room()
            self._store.reseal(segment)
            progress.history -= 1
            yield
        if not self._store.checkpoint():
            raise DiskFull("there is no room for a checkpoint: free space")
        yield
        for found in streams:
            self._check_room()
            self._runtime.streams.reseal(*found)
            progress.stream_segments -= 1
            yield
        for number, pointer in enumerate(pointers, 1):
            self._check_room()
            self._reseal(pointer)
            progress.bodies -= 1
            if number % BODIES == 0:
                yield
        self._forget_keys(in_tables)

    def _compact(self, until: int) -> Iterator[None]:
        """Remove the segments up to one, the oldest first."""
        while self._store.meta.oldest <= until:
            self._check_room()
            if not self._store.compact(forced=True):
                why = self._store.archive_problem or "the store has no room, or does not answer"
                raise DiskFull(f"segment {self._store.meta.oldest} cannot be removed: {why}")
            self.progress.segments = max(0, min(self.progress.segments, until + 1 - self._store.meta.oldest))
            yield
        self.progress.segments = 0  # compaction that went on beside this may have removed the last of them

    def _check_room(self) -> None:
        if self._store.journal.full:
            raise DiskFull("the disk is nearly full: free space")

    def _reseal(self, pointer: bytes) -> None:
        """Encrypt a large body anew, unless its message was settled meanwhile; only this thread deletes bodies."""
        with self._runtime.lock:
            live = pointer in self._runtime.core.engine.blobs
        if live and self._runtime.large is not None:
            self._runtime.large.reseal(pointer)

    def _forget_keys(self, in_tables: set[bytes]) -> None:
        """Let META name the keys that are needed, and tell which ones are not."""
        progress, store = self.progress, self._store
        needed = {key_id.hex(): "segments of streams in PostgreSQL" for key_id in in_tables if key_id != PLAIN}
        for counts, what in ((self._other_keys(), "staged pieces"), (store.history_keys(), "segments of history")):
            for key_id, count in counts.items():
                needed[key_id] = ", ".join(filter(None, (needed.get(key_id), f"{count} {what}")))
        progress.needed = {key_id: why for key_id, why in needed.items() if key_id not in (progress.key, PLAIN.hex())}
        progress.archived = dict(archived(store.options.archive_dir))
        known = (progress.key, *progress.needed)
        if store.meta.keys != known:
            store.save_meta(replace(store.meta, keys=known))
        progress.removable = [each.hex() for each in store.options.keys if each.hex() not in known]


def archived(directory: str | None) -> Counter[str]:
    """The segments in an archive directory by the id of their key; those that are not encrypted are left out."""
    found: Counter[str] = Counter()
    if directory is None or not os.path.isdir(directory):
        return found
    disk = Disk(directory)
    for number in segment_numbers(disk):
        header = read_header(disk, number)
        if header is not None and not header.key.is_plain:
            found[header.key.key_id.hex()] += 1
    return found


def as_facts(progress: RotationProgress) -> dict[str, Any]:
    """A progress, fit for JSON."""
    return {**vars(progress), "left": progress.left}
