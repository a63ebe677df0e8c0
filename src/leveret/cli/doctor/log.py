"""The log of a directory: its segments, what lives in them, and which queues hold the oldest ones.

A broker is restored in memory as a server would do it, from the newest checkpoint on, so that what is told is what a
server would have.
"""

import struct
import time
from dataclasses import dataclass, field
from pathlib import Path

from leveret.cli.doctor.disk import LookedAt
from leveret.core.broker import Broker
from leveret.core.errors import JournalError
from leveret.core.restore import segments_of
from leveret.runtime.large_bodies import DIRECTORY
from leveret.storage.blobs import KEY, parse_pointer
from leveret.storage.encryption import TAG_BYTES
from leveret.storage.journal.checkpoint import checkpoint_names, read_checkpoint
from leveret.storage.journal.entries import read_head
from leveret.storage.journal.files.meta import read_meta
from leveret.storage.journal.files.recovery import Recovery
from leveret.storage.journal.files.segments import (
    FRAME_HEADER_BYTES,
    SegmentReader,
    parse_header,
    segment_name,
    segment_numbers,
)
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.options import JournalOptions
from leveret.storage.segments import HEADER_BYTES

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
    facts = LogFacts(segments=[_segment(disk, number) for number in segment_numbers(disk)])
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
