"""The archive: sealed segments of the journal, and records of streams, become tables of Iceberg, each row once.

Segments are files, or in PostgreSQL: of one broker, or of all shards of a cluster (store_segments.py).
Each step ends in commits (iceberg.py): new segments are taken in, as many at a time as ARCHIVED_BYTES; days that are
too old are dropped; small files are put together. Each table says how far it is, so a run that is killed anywhere, also
between the commits of two tables, is simply run again. Segments in the directory that the broker hands them to
(`archive_dir`) can go once all tables have them.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.manifest import DataFile
from pyspark.sql import DataFrame, SparkSession

from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed
from leveret.spark.archive_state import ARCHIVED, JOURNALED, ArchivedJournal, ArchiveState, refuse_former
from leveret.spark.columns import spark_schema
from leveret.spark.compaction import compacted, expired
from leveret.spark.convert import converted
from leveret.spark.directories import archive_place, directory, is_stored
from leveret.spark.iceberg import IcebergArchive, version_of
from leveret.spark.layout import written, written_by
from leveret.spark.live import live_source
from leveret.spark.scan import ARCHIVED_TABLES, JournalScan
from leveret.spark.segments import (
    Slice,
    is_data_directory,
    learn_archived,
    live_segment,
    number_of,
    open_segment,
    segment_files,
    shard_in,
    slices_of,
)
from leveret.spark.streams import StreamSource
from leveret.spark.tables import read_table
from leveret.spark.tasks import Batches, scattered
from leveret.storage.disk import Disk
from leveret.storage.encryption import load_keys
from leveret.storage.journal.files.meta import read_meta

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
    (stream,), start, end, missing = source.choice.names, {}, {}, 0
    for partition, there in sorted(source.surveys()[stream].ends.items()):
        name = str(partition)
        wanted = archived.get(name, there.first)
        if wanted > there.end:
            raise PreconditionFailed(
                f"stream {stream!r} is archived up to offset {wanted} and ends at {there.end}: it was made "
                "anew; give it an archive of its own"
            )
        start[name], end[name] = max(wanted, there.first), there.end
        missing += start[name] - wanted
    return News(start, end, missing)


RETENTION_DAYS = 14
ARCHIVED_BYTES = 4 << 30
"""Bytes of segments that are committed at once: what is done again when a run is killed."""
SLICE_BYTES = 32 << 20
TASK_BYTES = 64 << 20
"""Bytes of segments that become a file for each day."""
CONSUMERS_MAX = 100_000
"""Names of consumers that an archive remembers for segments to come."""

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
    convert: bool = False
    """Turn an archive of an earlier version into this one's first."""

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
        object.__setattr__(self, "directory", archive_place("out", self.directory))
        object.__setattr__(self, "sources", tuple(directory("path", source) for source in self.sources))
        if not self.sources and self.store is None and not (self.streams and self.url) and not self.convert:
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
    gone_segments: int = 0
    records: int = 0
    missing_records: int = 0
    files: int = 0


def archive(spark: SparkSession, job: Archive, now_ms: int, tell: Told = lambda text: None) -> Archived:
    """Bring an archive up to date."""
    done = Archived()
    with opened(job.directory, job.convert) as tables:
        with _fetching(job) as fetching:
            for files in _batches(job, fetching, tables.state("events")):
                tell(f"segments {number_of(files[0])} to {number_of(files[-1])}")
                _taken_in(spark, job, fetching, tables, files, done)
        for stream in job.streams:
            tell(f"stream {stream}")
            _streamed(spark, job, tables, stream, done)
        if job.retention_days is not None:
            done.expired_files = expired(tables, job.retention_days, now_ms)
        if job.compact:
            done.compacted_files = compacted(spark, tables, tell)
        if job.remove_segments:
            done.removed_segments = _remove_segments(job, tables.state("events"))
            if job.store is not None:
                from leveret.spark.store_segments import remove_archived

                done.removed_segments += remove_archived(job.store, tables.state("events"))
        tables.expire(now_ms)
        done.generation, done.files = version_of(tables.table("events")), tables.count()
        journals = tables.state("events").journals.values()
        done.missing_segments = sum(len(journal.missing) for journal in journals)
        done.gone_segments = done.missing_segments + sum(journal.first - 1 for journal in journals if journal.first)
    return done


@contextmanager
def opened(place: str, convert: bool = False) -> Iterator[IcebergArchive]:
    """An archive, made if need be, that no other process of this machine changes meanwhile."""
    disk = None if is_stored(place) else Disk(place)
    if disk is not None:
        disk.lock()
    try:
        tables = IcebergArchive(place)
        if convert:
            converted(tables)
        refuse_former(place)
        for name in ARCHIVED[::-1]:
            tables.made(name, ARCHIVED_TABLES[name])
        yield tables
    finally:
        if disk is not None:
            disk.unlock()


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
    with tempfile.TemporaryDirectory() if is_stored(job.directory) else nullcontext(job.directory) as scratch:
        fetching = StoreSegments(job.store, scratch)
        try:
            yield fetching
        finally:
            fetching.close()


def _batches(job: Archive, fetching: "StoreSegments | None", state: ArchiveState) -> Iterator[list[str]]:
    """The sealed segments that are not archived yet, by shard, oldest first, in pieces for one commit."""
    sealed = _sealed(job.sources, state)
    there = {(shard_in(path), number_of(path)) for path in sealed}
    fetched: Iterable[str] = () if fetching is None else fetching.fetched(state, there)
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


def _sealed(sources: tuple[str, ...], state: ArchiveState) -> list[str]:
    """Segments that are not written to and that are not archived; those that are have to be of the same broker."""
    found = segment_files(*sources)
    live = live_segment(found, *sources)
    return state.beyond([path for path in found if path != live])


def _taken_in(
    spark: SparkSession,
    job: Archive,
    fetching: "StoreSegments | None",
    tables: IcebergArchive,
    files: list[str],
    done: Archived,
) -> None:
    """Take the rows of some segments into each table that does not have them."""
    names = tables.state("events").names
    learn_archived(names, *job.sources)
    plan = slices_of(files, names, load_keys(*job.keys), SLICE_BYTES)
    for known in names.values():
        known.forget_consumers(CONSUMERS_MAX)
    newest = {shard_in(path): number_of(path) for path in segment_files(*job.sources)}
    counts = {}
    for name in JOURNALED:
        table, before = tables.table(name), tables.state(name)
        wanted = before.beyond(files)
        journals = _journals(before, wanted, newest if fetching is None else newest | fetching.newest)
        moved = any(number_of(path) <= journals[shard_in(path)].moved_until for path in wanted)
        scan = JournalScan((os.path.dirname(files[0]),), name, keys=job.keys, moved=moved)
        found = _written(spark, tables, scan, [piece for piece in plan if piece.path in set(wanted)])
        tables.commit(table, found, state=replace(before, journals=journals, names=names))
        counts[name] = sum(file.record_count for file in found)
    if fetching is not None:
        fetching.drop(files)
    done.segments += len(files)
    done.events += counts["events"]
    done.messages += counts["messages"]


def _journals(state: ArchiveState, files: list[str], newest: dict[int, int]) -> dict[int, ArchivedJournal]:
    """How far journals are archived after some segments more; `newest` is the last one that there is of each."""
    journals = dict(state.journals)
    for shard, same in groupby(sorted(files, key=lambda path: (shard_in(path), number_of(path))), key=shard_in):
        some = list(same)
        salt = open_segment(some[-1]).header.salt
        journal = journals.get(shard, ArchivedJournal())
        journals[shard] = journal.with_segments([number_of(path) for path in some], salt, newest[shard])
    return journals


def _written(spark: SparkSession, tables: IcebergArchive, scan: JournalScan, plan: list[Slice]) -> list[DataFile]:
    """Write the rows of planned slices; messages whose origin may be gone count where they were moved to, once."""
    tasks: list[list[Slice]] = [[]]
    for piece in plan:
        if sum(each.end - each.offset for each in tasks[-1]) >= TASK_BYTES:
            tasks.append([])
        tasks[-1].append(piece)

    def read(pieces: list[Slice]) -> Batches:
        return (rows for piece in pieces for rows in scan.batches(piece))

    if scan.table == "events" or not scan.moved:
        return written_by(spark, tasks, tables, scan.table, read)
    key = ["queue_id", "offset"]
    known = read_table(spark, "messages", path=tables.files.root, columns=",".join(key))
    rows = scattered(spark, tasks, spark_schema(scan.chosen), read).dropDuplicates(key)
    return written(rows.join(known, key, "left_anti").select(*scan.chosen), tables, scan.table)


def _streamed(spark: SparkSession, job: Archive, tables: IcebergArchive, stream: str, done: Archived) -> None:
    """Take in the records of a stream that are new."""
    options = {"stream": stream, **(job.stored if job.url is None else {"url": job.url})}
    if job.url is not None and job.token is not None:
        options["token"] = job.token
    table, before = tables.table("records"), tables.state("records")
    news = new_records(options, before.streams.get(stream, {}))
    done.missing_records += news.missing
    if news.records:
        found = written(news.read(spark, options), tables, "records")
        tables.commit(table, found, state=replace(before, streams=before.streams | {stream: news.end}))
        done.records += sum(file.record_count for file in found)


def _remove_segments(job: Archive, state: ArchiveState) -> int:
    """Remove archived segments from where the broker hands them to, and from its history: its log is its own."""
    removed = 0
    for source in job.sources:
        oldest = read_meta(Disk(source)).oldest if is_data_directory(source) else None
        for path in segment_files(source):
            number = number_of(path)
            if state.journal(shard_in(path)).has(number) and (oldest is None or number < oldest):
                Path(path).unlink(missing_ok=True)
                Path(path.removesuffix(".log") + ".names.json").unlink(missing_ok=True)
                removed += 1
    return removed
