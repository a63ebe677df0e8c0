"""The archive: sealed segments of the journal, and records of streams, become Parquet by day and queue, each once.

Segments are files, or in PostgreSQL: of one broker, or of all shards of a cluster (store_segments.py).
Each step ends in a manifest of a new generation (manifest.py): new segments are taken in, as many at a time as
ARCHIVED_BYTES; days that are too old are dropped; small files are put together. A run that is killed anywhere is simply
run again. Segments in the directory that the broker hands them to (`archive_dir`) can go once the manifest has them.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession

from leveret.core.errors import DamagedJournal, InvalidArgument, NotFound, PreconditionFailed
from leveret.spark import manifest as manifests
from leveret.spark.columns import spark_schema
from leveret.spark.directories import directory
from leveret.spark.layout import FILE_BYTES, ArchiveLayout, placed, read_again
from leveret.spark.live import live_source
from leveret.spark.manifest import ArchivedJournal, File, Manifest
from leveret.spark.parquet import archived
from leveret.spark.scan import ARCHIVED_TABLES, TABLES, JournalScan
from leveret.spark.segments import (
    is_data_directory,
    learn_archived,
    live_segment,
    number_of,
    open_segment,
    segment_files,
    shard_in,
    slices_of,
    write_slices,
)
from leveret.spark.streams import StreamSource
from leveret.storage.encryption import load_keys

if TYPE_CHECKING:
    from leveret.spark.store_segments import StoreSegments


@dataclass(frozen=True)
class News:
    """Offsets from which on, and before which, records are new; by the number of the partition, as text."""

    start: dict[str, int]
    end: dict[str, int]
    missing: int
    """Records that retention removed before they were archived."""

    @property
    def records(self) -> int:
        """How many are new."""
        return sum(self.end.values()) - sum(self.start.values())

    def read(self, spark: SparkSession, options: dict[str, str]) -> DataFrame:
        """The new records."""
        reader = spark.read.format("leveret").options(**options)
        return reader.options(startingOffsets=json.dumps(self.start), endingOffsets=json.dumps(self.end)).load()


def new_records(options: dict[str, str], archived: dict[str, int]) -> News:
    """What is new of the stream that options name, after what is archived."""
    source = live_source(options)
    if not isinstance(source, StreamSource):
        raise InvalidArgument("streams are read from --path or --url: name one of them")
    start, end, missing = {}, {}, 0
    for partition, there in sorted(source.place.ends().items()):
        name = str(partition)
        wanted = archived.get(name, there.first)
        if wanted > there.end:
            raise PreconditionFailed(
                f"stream {source.stream!r} is archived up to offset {wanted} and ends at {there.end}: it was made "
                "anew; give it an archive of its own"
            )
        start[name], end[name] = max(wanted, there.first), there.end
        missing += start[name] - wanted
    return News(start, end, missing)


RETENTION_DAYS = 14
ARCHIVED_BYTES = 4 << 30
"""Bytes of segments that one generation takes in: what is lost when a run is killed."""
SLICE_BYTES = 32 << 20
SMALL_BYTES = 32 << 20
SMALL_FILES_MIN = 8
"""So many small files of one day and folder are worth putting together."""
COMPACTED_BYTES = 1 << 30
CONSUMERS_MAX = 100_000
"""Names of consumers that an archive remembers for segments to come."""
_SLICES = "slices.json"

Told = Callable[[str], None]


@dataclass(frozen=True)
class Archive:
    """What is archived, where to, and for how long."""

    directory: str
    sources: tuple[str, ...] = ()
    """Data directory, or the directory that the broker hands segments to, or both."""
    store: str | None = None
    """URL of the PostgreSQL that has the journal, of a broker or of a cluster, in place of a data directory."""
    retention_days: int | None = RETENTION_DAYS
    remove_segments: bool = False
    streams: tuple[str, ...] = ()
    """Streams that are archived, of the broker at `url` or, without one, in the first source."""
    url: str | None = None
    token: str | None = None
    compact: bool = True
    archived_bytes: int = ARCHIVED_BYTES
    keys: tuple[str | None, str | None] = (None, None)

    @property
    def stored(self) -> dict[str, str]:
        """Options of the format for the first source."""
        return {"path": self.sources[0], **self.unlocked}

    @property
    def unlocked(self) -> dict[str, str]:
        """Options of the format for what is encrypted."""
        names = ("encryption_key_file", "encryption_key_env")
        return {name: key for name, key in zip(names, self.keys, strict=True) if key is not None}

    def __post_init__(self) -> None:
        object.__setattr__(self, "directory", directory("out", self.directory))
        object.__setattr__(self, "sources", tuple(directory("path", source) for source in self.sources))
        if not self.sources and self.store is None and not (self.streams and self.url):
            raise InvalidArgument("nothing to archive: name a data directory, the archive_dir of a broker, or streams")
        if self.store is not None and any(map(is_data_directory, self.sources)):
            raise InvalidArgument("the journal is in a data directory or in a store: name one of them")
        if self.store is not None and self.streams and self.url is None:
            raise InvalidArgument("streams in PostgreSQL are read through their server: give its url")
        if self.retention_days is not None and self.retention_days < 1:
            raise InvalidArgument(f"an archive keeps at least 1 day, not {self.retention_days}")


@dataclass
class Archived:
    """What a run has done."""

    generation: int = 0
    segments: int = 0
    events: int = 0
    messages: int = 0
    compacted_files: int = 0
    expired_files: int = 0
    removed_segments: int = 0
    missing_segments: int = 0
    records: int = 0
    missing_records: int = 0
    files: int = 0


def archive(spark: SparkSession, job: Archive, now_ms: int, tell: Told = lambda text: None) -> Archived:
    """Bring an archive up to date."""
    done = Archived()
    with manifests.opened(job.directory) as manifest:
        with _fetching(job) as fetching:
            for files in _batches(job, fetching, manifest):
                tell(f"segments {number_of(files[0])} to {number_of(files[-1])}")
                manifest = _taken_in(spark, job, fetching, manifest, files, done)
        for stream in job.streams:
            tell(f"stream {stream}")
            manifest = _streamed(spark, job, manifest, stream, done)
        if job.retention_days is not None:
            manifest = _expired(job, manifest, now_ms, done)
        if job.compact:
            for group in _small(manifest):
                tell(f"{len(group)} small files of {group[0].table}")
                manifest = _compacted(spark, job, manifest, group, done)
        if job.remove_segments:
            done.removed_segments = _remove_segments(job, manifest)
    done.generation, done.files = manifest.generation, len(manifest.files)
    done.missing_segments = sum(len(journal.missing) for journal in manifest.journals.values())
    return done


@contextmanager
def _fetching(job: Archive) -> "Iterator[StoreSegments | None]":
    """What fetches segments from a store, if there is one."""
    if job.store is None:
        yield None
        return
    try:
        # Not above: archiving files needs no library for PostgreSQL.
        from leveret.spark.store_segments import StoreSegments
    except ImportError:
        raise NotFound("a store in PostgreSQL needs a library: pip install 'leveret[cluster]'") from None
    fetching = StoreSegments(job.store, job.directory)
    try:
        yield fetching
    finally:
        fetching.close()


def _batches(job: Archive, fetching: "StoreSegments | None", manifest: Manifest) -> Iterator[list[str]]:
    """The sealed segments that are not archived yet, by shard, oldest first, in pieces for one generation."""
    sealed = _sealed(job.sources, manifest)
    there = {(shard_in(path), number_of(path)) for path in sealed}
    fetched: Iterable[str] = () if fetching is None else fetching.fetched(manifest, there)
    files: list[str] = []
    size = 0
    for path in chain(sealed, fetched):
        if files and size + os.path.getsize(path) > job.archived_bytes:
            yield files
            files, size = [], 0
        files.append(path)
        size += os.path.getsize(path)
    if files:
        yield files


def _sealed(sources: tuple[str, ...], manifest: Manifest) -> list[str]:
    """Segments that are not written to and that are not archived; those that are have to be of the same broker."""
    found = segment_files(*sources)
    live = live_segment(found, *sources)
    return manifest.beyond([path for path in found if path != live])


def _taken_in(
    spark: SparkSession,
    job: Archive,
    fetching: "StoreSegments | None",
    manifest: Manifest,
    files: list[str],
    done: Archived,
) -> Manifest:
    """One generation more, with the rows of some segments."""
    names = manifest.names
    learn_archived(names, *job.sources)
    plan = slices_of(files, names, load_keys(*job.keys), SLICE_BYTES)
    write_slices(os.path.join(job.directory, _SLICES), plan)
    newest = {shard_in(path): number_of(path) for path in segment_files(*job.sources)}
    journals = _journals(manifest, files, newest if fetching is None else newest | fetching.newest)
    moved = any(number_of(path) <= journals[shard_in(path)].moved_until for path in files)
    layout = ArchiveLayout(job.directory, manifest.generation + 1)
    pieces = 1 + sum(map(os.path.getsize, files)) // FILE_BYTES
    queues = len({queue.name for piece in plan for queue in piece.names.queues.values()})
    written: list[File] = []
    for table in TABLES:
        rows = _rows(spark, job, manifest, os.path.dirname(files[0]), table, moved)
        written += layout.write(placed(rows, table, queues), table, pieces)
    for known in names.values():
        known.forget_consumers(CONSUMERS_MAX)
    taken = replace(
        manifest, generation=layout.generation, files=(*manifest.files, *written), journals=journals, names=names
    )
    manifests.commit(job.directory, taken)
    if fetching is not None:
        fetching.drop(files)
    os.unlink(os.path.join(job.directory, _SLICES))
    done.segments += len(files)
    done.events += sum(file.rows for file in written if file.table == "events")
    done.messages += sum(file.rows for file in written if file.table == "messages")
    return taken


def _journals(manifest: Manifest, files: list[str], newest: dict[int, int]) -> dict[int, ArchivedJournal]:
    """How far journals are archived after some segments more; `newest` is the last one that there is of each."""
    journals = dict(manifest.journals)
    for shard, same in groupby(sorted(files, key=lambda path: (shard_in(path), number_of(path))), key=shard_in):
        some = list(same)
        salt = open_segment(some[-1]).header.salt
        journal = journals.get(shard, ArchivedJournal())
        journals[shard] = journal.with_segments([number_of(path) for path in some], salt, newest[shard])
    return journals


def _rows(spark: SparkSession, job: Archive, manifest: Manifest, place: str, table: str, moved: bool) -> DataFrame:
    """The rows of planned segments, the first of which is in a place.

    Where the origin of moved messages may be gone they count, once.
    """
    planned = {"table": table, "slices": f"{job.directory}/{_SLICES}", "moved": str(moved).lower()}
    rows = spark.read.format("leveret").options(path=place, **job.unlocked, **planned).load()
    if table == "events" or not moved:
        return rows
    known = archived(spark, JournalScan((job.directory,), "messages", "queue_id,offset")) if manifest.files else None
    once = rows.dropDuplicates(["queue_id", "offset"])
    return once if known is None else once.join(known, ["queue_id", "offset"], "left_anti").select(*rows.columns)


def _streamed(spark: SparkSession, job: Archive, manifest: Manifest, stream: str, done: Archived) -> Manifest:
    """One generation more, with the records of a stream that are new."""
    options = {"stream": stream, **(job.stored if job.url is None else {"url": job.url})}
    if job.url is not None and job.token is not None:
        options["token"] = job.token
    news = new_records(options, manifest.streams.get(stream, {}))
    done.missing_records += news.missing
    if not news.records:
        return manifest
    layout = ArchiveLayout(job.directory, manifest.generation + 1)
    written = layout.write(placed(news.read(spark, options), "records", 1), "records", 1)
    done.records += sum(file.rows for file in written)
    streams = manifest.streams | {stream: news.end}
    return _committed(
        job, replace(manifest, generation=layout.generation, files=(*manifest.files, *written), streams=streams)
    )


def _expired(job: Archive, manifest: Manifest, now_ms: int, done: Archived) -> Manifest:
    """The archive without the days that are too old."""
    assert job.retention_days is not None
    today = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    oldest = (today - timedelta(days=job.retention_days)).isoformat()
    kept = tuple(file for file in manifest.files if file.date >= oldest)
    if len(kept) == len(manifest.files):
        return manifest
    done.expired_files = len(manifest.files) - len(kept)
    return _committed(job, replace(manifest, generation=manifest.generation + 1, files=kept))


def _small(manifest: Manifest) -> Iterator[list[File]]:
    """Groups of small files that are worth putting together: of one table, whole folders of days."""
    small = sorted(
        (file for file in manifest.files if file.bytes < SMALL_BYTES),
        key=lambda file: (file.table, file.date, file.folder),
    )
    for _, of_table in groupby(small, key=lambda file: file.table):
        chosen: list[File] = []
        for _, same in groupby(of_table, key=lambda file: (file.date, file.folder)):
            folder = list(same)
            if len(folder) >= SMALL_FILES_MIN:
                chosen += folder
            if sum(file.bytes for file in chosen) > COMPACTED_BYTES:
                yield chosen
                chosen = []
        if chosen:
            yield chosen


def _compacted(spark: SparkSession, job: Archive, manifest: Manifest, group: list[File], done: Archived) -> Manifest:
    """The archive with some files put together."""
    table = group[0].table
    layout = ArchiveLayout(job.directory, manifest.generation + 1)
    rows = read_again(spark, job.directory, group, spark_schema(ARCHIVED_TABLES[table]))
    written = layout.write(rows, table, 1)
    if sum(file.rows for file in written) != sum(file.rows for file in group):
        raise DamagedJournal(f"{job.directory}: files of {table} lost rows while they were put together; run it again")
    done.compacted_files += len(group)
    kept = tuple(file for file in manifest.files if file not in group)
    return _committed(job, replace(manifest, generation=layout.generation, files=(*kept, *written)))


def _committed(job: Archive, manifest: Manifest) -> Manifest:
    """The same manifest, durable."""
    manifests.commit(job.directory, manifest)
    return manifest


def _remove_segments(job: Archive, manifest: Manifest) -> int:
    """Remove archived segments from where the broker hands them to; its own directory it clears itself."""
    removed = 0
    for source in job.sources:
        if is_data_directory(source):
            continue
        for path in segment_files(source):
            if manifest.journal(shard_in(path)).has(number_of(path)):
                os.unlink(path)
                Path(path.removesuffix(".log") + ".names.json").unlink(missing_ok=True)
                removed += 1
    return removed
