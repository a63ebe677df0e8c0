"""The manifest of a Parquet archive: which files count, and how far the journal and streams are in them.

    archive/manifest-00000000000000000007.json      the highest number counts
    archive/events/generation=7/date=2026-01-31/folder=orders/part-00000-...parquet
    archive/messages/generation=7/...
    archive/records/generation=7/...                those of streams

A run writes the files of a new generation and makes them durable, and only then, by a rename, the manifest that names
them. Whatever the newest manifest does not name is of a run that did not end, or of an older generation: no reader
reads it, and the next run sweeps it.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from leveret.core.errors import DamagedJournal, NotFound, PreconditionFailed, UnknownFormat
from leveret.spark.segments import EntityNames, ShardNames, number_of, open_segment, shard_in
from leveret.storage.disk import Disk, replace_file

FORMAT = 2
TABLES = ("events", "messages", "records")
REMEDY = "restore it from a backup of the archive"
_PREFIX, _SUFFIX = "manifest-", ".json"
_GENERATION = "generation="


@dataclass(frozen=True)
class File:
    """One Parquet file: its place in the archive, its day, and the range of its queues."""

    path: str
    table: str
    date: str
    folder: str
    rows: int
    bytes: int
    first_queue: str | None
    last_queue: str | None
    """Both null when there is no queue in it; every queue of the file is between them."""

    def may_hold(self, queues: frozenset[str] | None, since: str, until: str) -> bool:
        """Whether it can have rows of these queues and days; `until` is the last day."""
        if not since <= self.date <= until:
            return False
        if queues is None:
            return True
        first, last = self.first_queue, self.last_queue
        return first is not None and last is not None and any(first <= queue <= last for queue in queues)


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
class Manifest:
    """All that is true of an archive."""

    generation: int = 0
    files: tuple[File, ...] = ()
    journals: dict[int, ArchivedJournal] = field(default_factory=dict)
    """By shard; a broker that has only one is shard 0."""
    streams: dict[str, dict[str, int]] = field(default_factory=dict)
    """By stream and partition: the offset from which on records are not archived yet."""
    names: ShardNames = field(default_factory=dict)

    def of(self, table: str) -> list[File]:
        """The files of one table."""
        return [file for file in self.files if file.table == table]

    def journal(self, shard: int) -> ArchivedJournal:
        """How far the journal of a shard is archived."""
        return self.journals.get(shard, ArchivedJournal())

    def beyond(self, files: list[str]) -> list[str]:
        """The segments that are to be archived, of some that are in their order."""
        by_shard = groupby(files, key=shard_in)
        return [path for shard, some in by_shard for path in self.journal(shard).beyond(list(some))]


def is_archive(directory: str) -> bool:
    """Whether a directory is a Parquet archive."""
    return os.path.isdir(directory) and bool(_generations(directory))


def read_manifest(directory: str) -> Manifest:
    """The newest manifest of an archive."""
    generations = _generations(directory) if os.path.isdir(directory) else []
    if not generations:
        raise NotFound(f"{directory} is no Parquet archive: `leveret pipeline archive` makes one")
    return _read(os.path.join(directory, manifest_name(generations[-1])))


def manifest_name(generation: int) -> str:
    """The file name of a manifest."""
    return f"{_PREFIX}{generation:020d}{_SUFFIX}"


@contextmanager
def opened(directory: str) -> Iterator[Manifest]:
    """The manifest of an archive that this process alone changes meanwhile; an empty one in a new directory."""
    disk = Disk(directory)
    disk.lock()
    try:
        manifest = read_manifest(directory) if _generations(directory) else Manifest()
        sweep(directory, manifest)
        yield manifest
    finally:
        disk.unlock()


def commit(directory: str, manifest: Manifest) -> None:
    """Make the files of a manifest durable, then the manifest, then remove what it does not name."""
    before = {file.path for file in read_manifest(directory).files} if _generations(directory) else set()
    sync_files(directory, (file.path for file in manifest.files if file.path not in before))
    replace_file(Disk(directory), manifest_name(manifest.generation), _written(manifest))
    sweep(directory, manifest)


def generation_directory(directory: str, table: str, generation: int) -> str:
    """Where the files of a table and generation are."""
    return os.path.join(directory, table, f"{_GENERATION}{generation}")


def sweep(directory: str, manifest: Manifest) -> int:
    """Remove the files that a manifest does not name, and older manifests; give the number of data files."""
    removed = 0
    named = {file.path for file in manifest.files}
    for table in TABLES:
        for path in sorted(Path(directory, table).glob(f"{_GENERATION}*")):
            inside = f"{path.relative_to(directory)}/"
            removed += _swept(Path(directory), path, {name for name in named if name.startswith(inside)})
    for generation in _generations(directory):
        if generation < manifest.generation:
            os.unlink(os.path.join(directory, manifest_name(generation)))
    return removed


def sync_files(directory: str, paths: Iterable[str]) -> None:
    """Make files durable, and the names of all directories between them and the archive."""
    directories = set()
    for path in paths:
        _sync(os.path.join(directory, path))
        parent = os.path.dirname(path)
        while parent:
            directories.add(parent)
            parent = os.path.dirname(parent)
    for parent in sorted(directories, reverse=True):
        _sync(os.path.join(directory, parent))


def _sync(path: str) -> None:
    """Make a file or directory durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _swept(root: Path, generation: Path, named: set[str]) -> int:
    """Remove what is not named of one generation, and the checksums that Spark writes beside files."""
    if not named:
        count = sum(1 for _ in generation.rglob("*.parquet"))
        shutil.rmtree(generation)
        return count
    gone = [path for path in generation.rglob("*.parquet") if path.relative_to(root).as_posix() not in named]
    for path in gone:
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    return len(gone)


def _generations(directory: str) -> list[int]:
    """The numbers of the manifests in a directory, oldest first."""
    names = (name.removeprefix(_PREFIX).removesuffix(_SUFFIX) for name in os.listdir(directory))
    return sorted(int(name) for name in names if len(name) == 20 and name.isdigit())


def _written(manifest: Manifest) -> bytes:
    """A manifest as it is in its file."""
    facts = {
        "format": FORMAT,
        "generation": manifest.generation,
        "journals": {str(shard): asdict(journal) for shard, journal in manifest.journals.items()},
        "streams": manifest.streams,
        "names": {str(shard): names.as_json() for shard, names in manifest.names.items()},
        "files": [asdict(file) for file in manifest.files],
    }
    return json.dumps(facts, indent=1).encode()


def _journal(facts: dict[str, Any]) -> ArchivedJournal:
    """A journal from JSON."""
    return ArchivedJournal(**(facts | {"missing": tuple(facts["missing"])}))


def _read(path: str) -> Manifest:
    """The manifest in a file."""
    try:
        facts: dict[str, Any] = json.loads(Path(path).read_bytes())
        version = facts["format"]
        if version == FORMAT:
            return Manifest(
                facts["generation"],
                tuple(File(**file) for file in facts["files"]),
                {int(shard): _journal(told) for shard, told in facts["journals"].items()},
                facts["streams"],
                {int(shard): EntityNames.of_json(told) for shard, told in facts["names"].items()},
            )
    except json.JSONDecodeError as error:
        raise DamagedJournal(f"{path} is damaged at offset {error.pos}: {REMEDY}") from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedJournal(f"{path} is damaged: {REMEDY}") from error
    raise UnknownFormat(f"{path} has format {version}, this version reads {FORMAT}: use the one that wrote it")
