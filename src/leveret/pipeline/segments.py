"""Segments as the pipeline reads them: which files there are, how they are cut into slices, and who is named in them.

A directory is a data directory (it has META; the broker may be at work in it) or an archive. The last segment of a
data directory may end in a frame that is being written: it is read up to its last whole frame. Anything else that
is not as it was written is damage.
"""

import json
import mmap
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from leveret.core.catalog import REMOVED, Kind
from leveret.core.errors import DamagedJournal, NotFound
from leveret.journal.columns import Columns
from leveret.journal.encryption import PLAIN, Keys, frame_nonce
from leveret.journal.entries import Head, read_head
from leveret.journal.meta import META_NAME
from leveret.journal.segments import HEADER_BYTES, SegmentHeader, parse_header

PATTERN = "seg-[0-9]*.log"
REMEDY = "restore the file from a backup, or leave it out"
_SEQ_AT = slice(16, 24)  # of the number of a frame in its header


class QueueName(NamedTuple):
    """What a queue is called; names.json of an archive does not say where."""

    vhost: str | None
    name: str


@dataclass
class Names:
    """Who is behind the numbers of queues and consumers."""

    queues: dict[int, QueueName] = field(default_factory=dict)
    consumers: dict[int, str] = field(default_factory=dict)

    def learn(self, definitions: list[tuple[int, bytes]]) -> None:
        """Take the names that definitions give; what was removed keeps its name in history."""
        for what, payload in definitions:
            kind = what & ~REMOVED
            if kind == Kind.QUEUE:
                queue = json.loads(payload)
                self.queues[queue["id"]] = QueueName(queue["vhost"], queue["name"])
            elif kind == Kind.CONSUMER:
                consumer = json.loads(payload)
                self.consumers[consumer["number"]] = consumer["name"]

    def of(self, queues: set[int], consumers: set[int]) -> "Names":
        """The names of some numbers only."""
        return Names(
            {number: self.queues[number] for number in queues & self.queues.keys()},
            {number: self.consumers[number] for number in consumers & self.consumers.keys()},
        )

    def numbers(self, wanted: frozenset[str]) -> bytes:
        """One byte for each queue number, not 0 for the queues of these names."""
        table = bytearray(max(self.queues, default=0) + 1)
        for number, queue in self.queues.items():
            table[number] = queue.name in wanted
        return bytes(table)


@dataclass(frozen=True)
class Slice:
    """A range of whole frames of one segment, the times of its first and last, and who is named in it."""

    path: str
    offset: int
    end: int
    first_ms: int
    last_ms: int
    names: Names = field(default_factory=Names)


class OpenSegment(NamedTuple):
    """A segment whose bytes are mapped."""

    path: str
    data: mmap.mmap
    header: SegmentHeader


def number_of(path: str) -> int:
    """The number of a segment."""
    return int(Path(path).stem.removeprefix("seg-"))


def segment_files(*directories: str) -> list[str]:
    """The segments in directories, oldest first; one that lies in several (archived, not yet removed) counts once."""
    found: dict[int, str] = {}
    for directory in directories:
        if not os.path.isdir(directory):
            raise NotFound(f"there is no directory {directory}: give the data directory of a broker or its archive")
        for path in Path(directory).glob(PATTERN):
            found.setdefault(number_of(str(path)), str(path))
    return [found[number] for number in sorted(found)]


def is_data_directory(directory: str) -> bool:
    """Whether a broker writes here; an archive only receives."""
    return os.path.exists(os.path.join(directory, META_NAME))


def open_segment(path: str) -> OpenSegment:
    """Map a segment, whose header has to be good, for as long as somebody holds its bytes."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = parse_header(file.read(HEADER_BYTES), number_of(path))
        if header is None or size < HEADER_BYTES:
            raise DamagedJournal(f"{path} is damaged at offset 0: its header is not that of a segment; {REMEDY}")
        return OpenSegment(path, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ), header)


def slices(path: str, slice_bytes: int, may_be_torn: bool) -> list[Slice]:
    """Cut a segment between frames into pieces of about so many bytes."""
    return list(_slices(open_segment(path), slice_bytes, may_be_torn))


def _slices(segment: OpenSegment, slice_bytes: int, may_be_torn: bool) -> Iterator[Slice]:
    """The slices of an open segment."""
    start = offset = HEADER_BYTES
    first: Head | None = None
    last: Head | None = None
    while offset < len(segment.data):
        head = read_head(segment.data, offset, segment.header.salt)
        if head is None:
            if may_be_torn:
                break
            raise DamagedJournal(f"{segment.path} is damaged at offset {offset}: a frame is not whole; {REMEDY}")
        first, last, offset = first or head, head, head.end
        if offset - start >= slice_bytes:
            yield Slice(segment.path, start, offset, first.when_ms, last.when_ms)
            start, first = offset, None
    if first is not None and last is not None:
        yield Slice(segment.path, start, offset, first.when_ms, last.when_ms)


def opener(header: SegmentHeader, keys: Keys) -> Callable[[bytes, bytes], bytes] | None:
    """What decrypts the frames of a segment; None when they are plain."""
    if header.key_id == PLAIN:
        return None

    def open_frame(head: bytes, sealed: bytes) -> bytes:
        nonce = frame_nonce(header.salt, int.from_bytes(head[_SEQ_AT], "little"))
        return keys.decrypt(header.key_id, nonce, sealed, head[8:])

    return open_frame


def archived_names(directory: str) -> dict[int, QueueName]:
    """The names of queues that lie beside archived segments."""
    found = {}
    for path in sorted(Path(directory).glob("seg-*.names.json")):
        try:
            known = json.loads(path.read_bytes())
            found.update({int(number): QueueName(None, str(name)) for number, name in known.items()})
        except (ValueError, AttributeError) as error:
            raise DamagedJournal(f"{path} is damaged at offset 0: it holds no names; {REMEDY}") from error
    return found


def with_names(pieces: list[Slice], directories: tuple[str, ...], keys: Keys) -> list[Slice]:
    """The slices with the names of those that they speak of, wherever the names are told."""
    names = Names()
    for directory in directories:
        names.queues.update(archived_names(directory))
    seen = []
    for piece in pieces:
        segment = open_segment(piece.path)
        columns = Columns(
            segment.data, piece.path, piece.offset, piece.end, segment.header.salt,
            open_frame=opener(segment.header, keys), survey=True,
        )  # fmt: skip
        columns.fill(1)
        names.learn(columns.definitions)
        seen.append((columns.queues_seen, columns.consumers_seen))
    return [replace(piece, names=names.of(*numbers)) for piece, numbers in zip(pieces, seen, strict=True)]
