"""How far the journal and streams are in an archive, and who the numbers in them are.

Each table of an archive says so itself, in a property that the commit of its rows sets: `leveret.archive`. The names of
queues and consumers, which may be many, are in a file that the property names.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from glob import escape, glob
from hashlib import sha256
from itertools import groupby
from typing import Any

from leveret.core.errors import DamagedJournal, PreconditionFailed, UnknownFormat
from leveret.spark.archive_files import ArchiveFiles, archive_files
from leveret.spark.directories import is_stored
from leveret.spark.segments import EntityNames, ShardNames, number_of, open_segment, shard_in

FORMAT = 3
PROPERTY = "leveret.archive"
JOURNALED = ("messages", "events")
"""The tables that take in a segment, in this order: what `events` has, all have."""
ARCHIVED = (*JOURNALED, "records")
"""The tables of an archive."""
NAMES, NOTES = "names", "notes"
"""Folders beside the tables: names of queues and consumers; what tasks have written."""
REMEDY = "restore it from a backup of the archive"


@dataclass(frozen=True)
class ArchivedJournal:
    """How far the journal of a broker is archived: all segments from `first` to `last` but those that are missing."""

    first: int = 0
    last: int = 0
    salt: int = 0
    """Of the segment `last`: a segment of that number with another salt is of another broker."""
    moved_until: int = 0
    """Up to this segment `moved` records can be of messages whose own segment was gone before the archive began."""
    missing: tuple[int, ...] = ()
    """Segments that were not there when it was their turn; one that turns up is archived."""

    def has(self, segment: int) -> bool:
        """Whether a segment is archived."""
        return self.first <= segment <= self.last and segment not in self.missing

    def wants(self, segment: int) -> bool:
        """Whether a segment is to be archived; what is older than the archive never is."""
        return segment > self.last or segment in self.missing

    def beyond(self, files: list[str]) -> list[str]:
        """The segments that are to be archived; one that is archived has to be of the same broker."""
        for path in files:
            if number_of(path) == self.last and open_segment(path).header.salt != self.salt:
                raise PreconditionFailed(f"{path} is of another broker than this archive: give each its own archive")
        return [path for path in files if self.wants(number_of(path))]

    def with_segments(self, segments: list[int], salt: int, newest: int) -> "ArchivedJournal":
        """The same after some segments more; `newest` is the last one that there is."""
        first, last = self.first or segments[0], max(self.last, segments[-1])
        began_late = not self.last and first > 1
        return ArchivedJournal(
            first,
            last,
            salt if last > self.last else self.salt,
            newest if began_late else self.moved_until,
            tuple(sorted({*self.missing, *range((self.last or first) + 1, last)} - set(segments))),
        )


@dataclass(frozen=True)
class ArchiveState:
    """How far a table of an archive is."""

    journals: dict[int, ArchivedJournal] = field(default_factory=dict)
    """By shard; a broker that has only one is shard 0."""
    streams: dict[str, dict[str, int]] = field(default_factory=dict)
    """By stream and partition: the offset from which on records are not archived yet."""
    names: ShardNames = field(default_factory=dict)

    def journal(self, shard: int) -> ArchivedJournal:
        """How far the journal of a shard is archived."""
        return self.journals.get(shard, ArchivedJournal())

    def beyond(self, files: list[str]) -> list[str]:
        """The segments that are to be archived, of some that are in their order."""
        by_shard = groupby(files, key=shard_in)
        return [path for shard, some in by_shard for path in self.journal(shard).beyond(list(some))]

    def as_property(self, files: ArchiveFiles) -> str:
        """The value of the property; names are written before, under a name of their own."""
        names = json.dumps({str(shard): names.as_json() for shard, names in self.names.items()}).encode()
        file = f"{NAMES}/{sha256(names).hexdigest()[:32]}.json"
        files.replace(file, names)
        journals = {str(shard): asdict(journal) for shard, journal in self.journals.items()}
        return json.dumps({"format": FORMAT, "journals": journals, "streams": self.streams, "names": file})


def state_of(properties: Mapping[str, str], files: ArchiveFiles) -> ArchiveState:
    """What the property of a table says; a table that others made says nothing."""
    if PROPERTY not in properties:
        return ArchiveState()
    place = f"{files.root} ({PROPERTY})"
    try:
        facts: dict[str, Any] = json.loads(properties[PROPERTY])
        if (version := facts["format"]) != FORMAT:
            raise UnknownFormat(f"{place} has format {version}, this version reads {FORMAT}: use the one that wrote it")
        place = f"{files.root}/{facts['names']}"
        with files.open(facts["names"]) as file:
            return parsed(facts, json.loads(file.read()))
    except json.JSONDecodeError as error:
        raise DamagedJournal(f"{place} is damaged at offset {error.pos}: {REMEDY}") from error
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise DamagedJournal(f"{place} is damaged: {REMEDY}") from error


def names_file(properties: Mapping[str, str]) -> str:
    """The file with the names that a table needs; empty if there is none."""
    return str(json.loads(properties[PROPERTY])["names"]) if PROPERTY in properties else ""


def parsed(facts: Mapping[str, Any], names: Mapping[str, Any]) -> ArchiveState:
    """A state out of JSON."""
    return ArchiveState(
        {int(shard): _journal(told) for shard, told in facts["journals"].items()},
        facts["streams"],
        {int(shard): EntityNames.of_json(told) for shard, told in names.items()},
    )


def is_archive(place: str) -> bool:
    """Whether there is an archive."""
    return next(archive_files(place).listed("events/metadata"), None) is not None


def refuse_former(place: str) -> None:
    """Refuse an archive of the layout before Iceberg, which has its own list of files."""
    if not is_stored(place) and glob(f"{escape(place)}/manifest-*.json") and not is_archive(place):
        raise UnknownFormat(
            f"{place} is an archive of an earlier version: `leveret pipeline archive --convert --out {place}` turns it "
            "into tables of Iceberg, without writing rows anew"
        )


def _journal(facts: dict[str, Any]) -> ArchivedJournal:
    """A journal from JSON."""
    return ArchivedJournal(**(facts | {"missing": tuple(facts["missing"])}))
