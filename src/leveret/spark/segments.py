"""Segments as the pipeline reads them: which files there are, how they are cut into slices, and who is named in them.

A directory is a data directory (it has META; the broker may be at work in it) or an archive. In the archive of a
cluster each shard has a folder: the journals of shards do not know each other's queues and numbers. The last segment of
a data directory may end in a frame that is being written: it is read up to its last whole frame. Anything else that is
not as it was written is damage.
"""

import json
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from leveret.core.arguments import queue_type_of, usable
from leveret.core.definition_log import REMOVED, Kind
from leveret.core.errors import DamagedJournal, NotFound
from leveret.core.jsonable import restored
from leveret.core.outcomes import keeps_dead
from leveret.core.policy import Policy, effective
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.columns import Survey
from leveret.storage.journal.files.meta import META_NAME
from leveret.storage.journal.files.segments import SegmentHeader, parse_header, segment_name, segment_numbers, shard_of
from leveret.storage.segments import HEADER_BYTES

REMEDY = "restore the file from a backup, or leave it out"


class QueueName(NamedTuple):
    """What a queue is called, and the settings that its history depends on; names.json of an archive has names only."""

    vhost: str | None
    name: str
    delay_ms: int = 0
    keeps_dead: bool | None = None
    """Whether what dies in it becomes a dead letter; None if that is not known."""


@dataclass
class EntityNames:
    """Who is behind the numbers of queues and consumers."""

    queues: dict[int, QueueName] = field(default_factory=dict)
    consumers: dict[int, str] = field(default_factory=dict)
    arguments: dict[int, dict[str, Any]] = field(default_factory=dict)
    """Of queues, as they are stored."""
    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By virtual host, name and whether it is an operator's."""

    def learn(self, definitions: list[tuple[int, bytes]]) -> None:
        """Take the names that definitions give; what was removed keeps its name in history."""
        for what, payload in definitions:
            kind = what & ~REMOVED
            if kind == Kind.QUEUE:
                queue = json.loads(payload)
                self.queues[queue["id"]] = QueueName(queue["vhost"], queue["name"])
                if not what & REMOVED:
                    self.arguments[queue["id"]] = queue.get("arguments") or {}
            elif kind == Kind.POLICY:
                policy = json.loads(payload)
                key = json.dumps([policy["vhost"], policy["name"], policy.get("operator", False)])
                if what & REMOVED:
                    self.policies.pop(key, None)
                else:
                    self.policies[key] = policy
            elif kind == Kind.CONSUMER:
                consumer = json.loads(payload)
                self.consumers[consumer["number"]] = consumer["name"]

    def of(self, queues: set[int], consumers: set[int]) -> "EntityNames":
        """The names of some numbers only."""
        return EntityNames(
            {number: self.queues[number] for number in queues & self.queues.keys()},
            {number: self.consumers[number] for number in consumers & self.consumers.keys()},
        )

    def resolve(self) -> None:
        """Give queues the settings that their arguments and the policies make, as both are known last."""
        policies = [(each["vhost"], Policy.from_dict(each)) for each in self.policies.values()]
        for number, stored in self.arguments.items():
            queue, arguments = self.queues[number], usable(restored(stored))
            about = [policy for vhost, policy in policies if vhost == queue.vhost]
            made = effective(
                arguments,
                queue.name,
                queue_type_of(arguments, queue.name),
                [each for each in about if not each.operator],
                [each for each in about if each.operator],
            )
            self.queues[number] = queue._replace(delay_ms=made.delay_ms, keeps_dead=keeps_dead(made))

    def forget_consumers(self, count_max: int) -> None:
        """Keep the names of the newest consumers only: every connection makes new ones."""
        for number in sorted(self.consumers)[:-count_max]:
            del self.consumers[number]

    def as_json(self) -> dict[str, Any]:
        """The names for a file of JSON."""
        return {
            "queues": {str(number): list(queue) for number, queue in self.queues.items()},
            "consumers": {str(number): name for number, name in self.consumers.items()},
            "arguments": {str(number): each for number, each in self.arguments.items()},
            "policies": self.policies,
        }

    @classmethod
    def of_json(cls, facts: dict[str, Any]) -> "EntityNames":
        """The names from a file of JSON."""
        return cls(
            {int(number): QueueName(*queue) for number, queue in facts["queues"].items()},
            {int(number): name for number, name in facts["consumers"].items()},
            {int(number): each for number, each in facts.get("arguments", {}).items()},
            facts.get("policies", {}),
        )

    def numbers(self, wanted: frozenset[str]) -> bytes:
        """One byte for each queue number, not 0 for the queues of these names, and for events of no queue."""
        table = bytearray(max(self.queues, default=0) + 1)
        table[0] = 1
        for number, queue in self.queues.items():
            table[number] = queue.name in wanted
        return bytes(table)


ShardNames = dict[int, EntityNames]
"""By shard; a broker that has only one is shard 0."""


@dataclass(frozen=True)
class Slice:
    """A range of whole frames of one segment, the times of its first and last, and who is named in it."""

    path: str
    offset: int
    end: int
    first_ms: int
    last_ms: int
    names: EntityNames = field(default_factory=EntityNames)
    moved_until: int = 0
    """Publishes before this offset that were moved forward are the only ones of their messages that there are."""
    has_broker_events: bool = False
    """Whether it has events of no queue, as starts are."""


class OpenSegment(NamedTuple):
    """A segment whose bytes are mapped."""

    path: str
    data: mmap.mmap
    header: SegmentHeader


def segment_files(*directories: str) -> list[str]:
    """The segments in directories, by shard, oldest first; one that lies in several (not yet removed) counts once."""
    check_directories(*directories)
    found: dict[tuple[int, int], str] = {}
    for place in places(*directories):
        for number in segment_numbers(Disk(place)):
            path = os.path.join(place, segment_name(number))
            found.setdefault((shard_in(path), number), path)
    return [found[segment] for segment in sorted(found)]


def places(*directories: str) -> Iterator[str]:
    """Directories, and the folders of shards in them."""
    for directory in directories:
        yield directory
        yield from sorted(entry.path for entry in os.scandir(directory) if shard_of(entry.name) is not None)


def shard_in(path: str) -> int:
    """The shard that a segment is of, by the folder that it lies in."""
    return shard_of(os.path.basename(os.path.dirname(path))) or 0


def live_segment(files: list[str], *directories: str) -> str | None:
    """The one of some segments that a broker is writing to."""
    written = {os.path.normpath(directory) for directory in directories if is_data_directory(directory)}
    return next((path for path in reversed(files) if os.path.normpath(os.path.dirname(path)) in written), None)


def check_directories(*directories: str) -> None:
    """Refuse directories that are not there."""
    for directory in directories:
        if not os.path.isdir(directory):
            raise NotFound(f"there is no directory {directory}: give the data directory of a broker or its archive")


def number_of(path: str) -> int:
    """The number of a segment, by its file name."""
    return int(Path(path).stem.removeprefix("seg-"))


def is_data_directory(directory: str) -> bool:
    """Whether a broker writes here; an archive only receives."""
    return os.path.exists(os.path.join(directory, META_NAME))


def open_segment(path: str) -> OpenSegment:
    """Map a segment, whose header has to be good, for as long as its bytes are referenced."""
    try:
        with open(path, "rb") as file:
            header = parse_header(file.read(HEADER_BYTES), number_of(path))
            if header is None:
                raise DamagedJournal(f"{path} is damaged at offset 0: its header is not that of a segment; {REMEDY}")
            return OpenSegment(path, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), header)
    except FileNotFoundError:
        raise NotFound(f"{path} has gone: the broker needs it no more; read again, or let it keep an archive") from None


def learn_archived(names: ShardNames, *directories: str) -> None:
    """Take the names of queues that lie beside archived segments, where no definition has told more."""
    for place in places(*directories):
        for path in sorted(Path(place).glob("seg-*.names.json")):
            queues = names.setdefault(shard_in(str(path)), EntityNames()).queues
            try:
                for number, name in json.loads(path.read_bytes()).items():
                    queues.setdefault(int(number), QueueName(None, str(name)))
            except (ValueError, AttributeError) as error:
                raise DamagedJournal(f"{path} is damaged at offset 0: it holds no names; {REMEDY}") from error


def slices(files: list[str], keys: MasterKeys, slice_bytes: int, live: str | None) -> Iterator[tuple[Slice, Survey]]:
    """Cut segments between frames into pieces of about so many bytes; the survey says what was seen in each.

    `live` is a file that may end in a frame which is being written.
    """
    for path in files:
        if path == live and os.path.getsize(path) < HEADER_BYTES:
            continue  # it is just being made
        segment = open_segment(path)
        survey = Survey(
            segment.data, path, HEADER_BYTES, len(segment.data), segment.header.salt,
            open_batch=segment.header.opener(keys), may_be_torn=path == live,
        )  # fmt: skip
        while survey.piece(slice_bytes):
            yield Slice(path, survey.start, survey.offset, survey.first_ms, survey.last_ms), survey


def named_slices(directories: tuple[str, ...], names: ShardNames, keys: MasterKeys, slice_bytes: int) -> list[Slice]:
    """The slices of all segments, with the names of those that they speak of, wherever else the names are told."""
    files = segment_files(*directories)
    learn_archived(names, *directories)
    return slices_of(files, names, keys, slice_bytes, live_segment(files, *directories))


class MovedMessages:
    """Which publishes that were moved forward are the only ones of their messages in a journal: the first segments
    may be gone.

    Compaction moves what lives in the oldest segment, one segment after the other. So all that was moved before the
    first segment that is here was the oldest one is of segments that are gone, and has no other publish here; all that
    was moved from then on has. That begins with a message that was first published here, or was moved here before.
    """

    def __init__(self, first: int) -> None:
        """The first segment that there is."""
        self._over = first == 1
        self._first_seq = -1
        self._seen: set[tuple[int, int]] = set()

    def until(self, survey: Survey) -> int:
        """Up to where that is so in the next piece."""
        if self._first_seq < 0:
            self._first_seq = survey.first_seq
        for offset, seq, queue in () if self._over else survey.moved:
            if 0 <= self._first_seq <= seq or (seq, queue) in self._seen:
                self._over, self._seen = True, set()
                return offset
            self._seen.add((seq, queue))
        return 0 if self._over else survey.offset


def slices_of(
    files: list[str], names: ShardNames, keys: MasterKeys, slice_bytes: int, live: str | None = None
) -> list[Slice]:
    """The slices of some segments; `names` learns what they tell."""
    found, moves = [], dict[int, MovedMessages]()
    for piece, survey in slices(files, keys, slice_bytes, live):
        shard = shard_in(piece.path)
        known = names.setdefault(shard, EntityNames())
        known.learn(survey.definitions)
        until = moves.setdefault(shard, MovedMessages(number_of(piece.path))).until(survey)
        whole = replace(piece, moved_until=until, has_broker_events=0 in survey.queues)
        found.append((whole, known, survey.queues, survey.consumers))
    for known in names.values():
        known.resolve()
    return [replace(piece, names=known.of(queues, consumers)) for piece, known, queues, consumers in found]
