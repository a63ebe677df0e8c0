"""The log of a directory: its segments, what lives in them, and which queues hold the oldest ones.

A broker is restored in memory as a server would do it, from the newest checkpoint on, so that what is told is what a
server would have.
"""

import fcntl
import os
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from leveret.core.broker import Broker
from leveret.core.errors import JournalError, NotFound
from leveret.core.restore import segments_of
from leveret.runtime.large_bodies import DIRECTORY
from leveret.storage.blobs import KEY, parse_pointer
from leveret.storage.disk import LOCK_NAME, Bytes, Disk
from leveret.storage.encryption import TAG_BYTES, MasterKeys
from leveret.storage.journal.checkpoint import checkpoint_names, read_checkpoint
from leveret.storage.journal.entries import read_head
from leveret.storage.journal.files.meta import read_meta
from leveret.storage.journal.files.recovery import Recovery, oldest_of
from leveret.storage.journal.files.segments import (
    FRAME_HEADER_BYTES,
    SegmentReader,
    parse_header,
    segment_name,
    segment_numbers,
)
from leveret.storage.journal.journal import FileJournal
from leveret.storage.options import JournalOptions
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.index import Index, IndexRows, Producers
from leveret.storage.stream.recovery import SegmentScan
from leveret.storage.stream.segments import Segment, bases, read_header
from leveret.storage.stream.segments import segment_name as stream_segment_name

NOWHERE = -1
PID_BYTES_MAX = 20


class LookedAt(Disk):
    """Takes the place of a disk. Recovery repairs what it reads: here it repairs nothing but its own memory."""

    def __init__(self, path: Path, progress: Callable[[int], None] = lambda count: None) -> None:
        """Look at a directory; `progress` hears of each number of bytes that was read."""
        if not path.is_dir():
            raise NotFound(f"there is no directory {path}: name the data directory of a server")
        self.path = path
        self._lock_fd = NOWHERE
        self._progress = progress

    def read_all(self, name: str) -> bytes:
        data = super().read_all(name)
        self._progress(len(data))
        return data

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        data = super().pread(fd, size, offset)
        self._progress(len(data))
        return data

    def holder(self) -> int | None:
        """The process that has the directory open; None when there is none."""
        try:
            fd = os.open(self._name(LOCK_NAME), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            told = os.pread(fd, PID_BYTES_MAX, 0).decode("ascii", "replace").strip()
            return int(told) if told.isdigit() else 0
        finally:
            os.close(fd)
        return None

    # What would change something

    def open_append(self, name: str) -> int:
        return NOWHERE

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        return sum(len(each) for each in buffers)

    def sync(self, fd: int) -> None:
        """See Disk."""

    def sync_dir(self) -> None:
        """See Disk."""

    def truncate(self, fd: int, size: int) -> None:
        """See Disk."""

    def rename(self, old: str, new: str) -> None:
        """See Disk."""

    def unlink(self, name: str) -> None:
        """See Disk."""

    def close(self, fd: int) -> None:
        if fd != NOWHERE:
            super().close(fd)


LENGTHS, LENGTHS_AT = struct.Struct("<II"), HEADER_BYTES + 8  # of the body and the index of the first frame
HOLDERS_MAX = 12
HELD_SEGMENTS = 3  # of which it is told who holds them


@dataclass(slots=True)
class SegmentFacts:
    """One segment."""

    segment: int
    bytes: int
    begun_ms: int | None
    placed: int = 0
    """Records that were written into it, as far as is known."""
    live: int = 0
    """Those of them that a queue still has."""


@dataclass(slots=True)
class SegmentHolder:
    """A queue that has messages in an old segment."""

    segment: int
    vhost: str
    queue: str
    live: int
    ready: int
    """How many it has ready in all."""
    paused: bool


@dataclass(slots=True)
class LogFacts:
    """What is known of a log; `trouble` says why a server could not start on it."""

    segments: list[SegmentFacts] = field(default_factory=list)
    holders: list[SegmentHolder] = field(default_factory=list)
    checkpoint: str | None = None
    checkpoint_bytes: int = 0
    after_checkpoint_bytes: int = 0
    """What a server reads again when it starts."""
    entries: int = 0
    torn_bytes: int = 0
    queues: int = 0
    ready: int = 0
    scheduled: int = 0
    restored_s: float = 0.0
    blobs: int = 0
    orphans: int = 0
    orphan_bytes: int = 0
    missing_blobs: int = 0
    stream_names: dict[int, str] = field(default_factory=dict)
    trouble: str = ""


def log_facts(disk: LookedAt, options: JournalOptions) -> LogFacts:
    """Everything about the log of a directory."""
    oldest = oldest_of(disk)
    facts = LogFacts(segments=[_segment(disk, number) for number in segment_numbers(disk) if number >= oldest])
    began_s = time.monotonic()
    journal = FileJournal(options, _now_ms)
    core = Broker(journal)
    reader = SegmentReader(disk, options.keys)
    try:
        _find_checkpoint(disk, options, facts)
        found = Recovery(disk, core.restorer, options.keys, read_meta(disk).oldest).run()
        live = core.restorer.recovered(_now_ms())
        segment, offset, seq = found.position
        journal.begin(seq + 1, segment, offset, reader, live, found.placed)
        facts.entries, facts.torn_bytes = found.entries, found.torn_bytes
        facts.restored_s = time.monotonic() - began_s
        _count(facts, core, live, found.placed)
        _find_blobs(facts, core, disk.path / DIRECTORY)
    except JournalError as error:
        facts.trouble = str(error)
    finally:
        reader.close()
    return facts


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _segment(disk: LookedAt, number: int) -> SegmentFacts:
    """A segment by its header and first frame."""
    name = segment_name(number)
    fd = disk.open_read(name)
    try:
        size = disk.size(name)
        data = disk.pread(fd, HEADER_BYTES + FRAME_HEADER_BYTES, 0)
        body_len, index_len = LENGTHS.unpack_from(data.ljust(HEADER_BYTES + FRAME_HEADER_BYTES, b"\0"), LENGTHS_AT)
        data = disk.pread(fd, min(len(data) + body_len + index_len + TAG_BYTES, size), 0)
    finally:
        disk.close(fd)
    header = parse_header(data, number)
    head = None if header is None else read_head(data, HEADER_BYTES, header.salt)
    return SegmentFacts(number, size, None if head is None else head.when_ms)


def _find_checkpoint(disk: LookedAt, options: JournalOptions, facts: LogFacts) -> None:
    """The newest checkpoint, and how much of the log comes after it."""
    sizes = {each.segment: each.bytes for each in facts.segments}
    facts.after_checkpoint_bytes = sum(sizes.values())
    for name in checkpoint_names(disk)[:1]:
        facts.checkpoint, facts.checkpoint_bytes = name, disk.size(name)
        found = read_checkpoint(disk, name, options.keys)
        if found is not None:
            segment, offset, _ = found.position
            later = sum(size for number, size in sizes.items() if number > segment)
            facts.after_checkpoint_bytes = later + max(0, sizes.get(segment, offset) - offset)


def _count(facts: LogFacts, core: Broker, live: dict[int, int], placed: dict[int, int]) -> None:
    """Put together what lives where."""
    for segment in facts.segments:
        segment.live, segment.placed = live.get(segment.segment, 0), placed.get(segment.segment, 0)
    old = [each.segment for each in facts.segments[:-1] if each.live][:HELD_SEGMENTS]
    for queue in core.queues.values():
        facts.queues += 1
        facts.ready += queue.depth
        facts.scheduled += queue.scheduled
        if queue.policy.queue_type == "stream":
            facts.stream_names[queue.id] = queue.name
            continue
        counts = segments_of(queue)
        facts.holders += [
            SegmentHolder(number, queue.vhost, queue.name, counts[number], queue.depth, queue.paused)
            for number in old
            if number in counts
        ]
    facts.holders.sort(key=lambda each: (each.segment, -each.live, each.queue))
    del facts.holders[HOLDERS_MAX:]


def _find_blobs(facts: LogFacts, core: Broker, directory: Path) -> None:
    """Large bodies: which are there, which no message names, and which are named and not there."""
    found = {path.name: path.stat().st_size for path in directory.glob("*") if KEY.fullmatch(path.name)}
    named = {parse_pointer(pointer).key for pointer in core.restorer.count_blobs()}
    facts.blobs = len(found)
    orphans = found.keys() - named
    facts.orphans, facts.orphan_bytes = len(orphans), sum(found[name] for name in orphans)
    facts.missing_blobs = len(named - found.keys()) if directory.exists() else 0


@dataclass(slots=True)
class PartitionFacts:
    """One partition; `trouble` is the first thing that is wrong with it."""

    stream: int
    name: str | None
    """None: no queue of that number is defined, so it has no owner."""
    partition: int
    segments: int = 0
    bytes: int = 0
    first: int = 0
    records: int = 0
    begun_ms: int | None = None
    trouble: str = ""


def partitions(
    home: Path, names: dict[int, str], keys: MasterKeys, progress: Callable[[int], None]
) -> list[PartitionFacts]:
    """Every partition of every stream below a directory."""
    found = []
    for folder in sorted(home.glob("[0-9]*/[0-9]*"), key=lambda each: (int(each.parent.name), int(each.name))):
        number = int(folder.parent.name)
        facts = PartitionFacts(number, names.get(number), int(folder.name))
        try:
            _read(LookedAt(folder, progress), facts, keys)
        except JournalError as error:
            facts.trouble = str(error)
        found.append(facts)
    return found


def _read(disk: LookedAt, facts: PartitionFacts, keys: MasterKeys) -> None:
    """Read every block of a partition."""
    starts = bases(disk)
    facts.segments = len(starts)
    facts.bytes = sum(disk.size(stream_segment_name(base)) for base in starts)
    facts.first = starts[0] if starts else 0
    for base in starts:
        segment = _checked(disk, base, keys, last=base == starts[-1])
        if segment is None:
            facts.trouble = f"{stream_segment_name(base)} is damaged at offset 0"
            return
        facts.records = segment.end - facts.first
        if facts.begun_ms is None:
            facts.begun_ms = segment.first_ms or None


def _checked(disk: LookedAt, base: int, keys: MasterKeys, last: bool) -> Segment | None:
    """A segment, all of it read; None when its header is damaged."""
    header = read_header(disk, base)
    if header is None:
        return None
    index = Index(Segment(base, header[0], base), IndexRows(), Producers())
    SegmentScan(disk, index, keys).run(last)
    return index.segment
