"""The streams of a directory: every partition with its segments, all of their blocks read and checked."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from leveret.cli.doctor.disk import LookedAt
from leveret.core.errors import JournalError
from leveret.storage.encryption import MasterKeys
from leveret.storage.stream.files.recovery import SegmentScan
from leveret.storage.stream.files.segments import Segment, bases, read_header, segment_name
from leveret.storage.stream.index import Index, IndexRows
from leveret.storage.stream.producers import Producers


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
    facts.bytes = sum(disk.size(segment_name(base)) for base in starts)
    facts.first = starts[0] if starts else 0
    for base in starts:
        segment = _checked(disk, base, keys, last=base == starts[-1])
        if segment is None:
            facts.trouble = f"{segment_name(base)} is damaged at offset 0"
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
