"""What keeps an archive small: days that are too old go, small files of a day are put together.

A file is put together with others of about its size, so that a row is written anew once for each size (TIERS), however
many runs add to its day; what it costs is proportional to the files that are put together.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

from pyiceberg.manifest import DataFile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.core.errors import DamagedJournal
from leveret.spark.archive_state import ARCHIVED
from leveret.spark.columns import NAME_COLUMNS, NUMBER_COLUMNS, TIME_COLUMNS
from leveret.spark.iceberg import IcebergArchive, matching
from leveret.spark.layout import FILE_BYTES, written
from leveret.spark.parquet import File, frame_of
from leveret.spark.scan import JournalScan

DAY_MS = 86_400_000
SMALL_BYTES = 32 << 20
TIERS = (512 << 10, 4 << 20, SMALL_BYTES)
SMALL_FILES_MIN = 8
"""So many small files of one day are worth putting together."""
COMPACTED_BYTES = 1 << 30
"""Bytes of files that are put together by one commit."""


def expired(tables: IcebergArchive, retention_days: int, now_ms: int) -> int:
    """Drop the days that are too old; give the number of their files."""
    oldest = datetime.fromtimestamp(now_ms / 1000, UTC).date() - timedelta(days=retention_days)
    count = 0
    for name in ARCHIVED:
        table = tables.table(name)
        until_ms = int(datetime(oldest.year, oldest.month, oldest.day, tzinfo=UTC).timestamp() * 1000)
        found = table.scan(row_filter=matching(name, None, None, until_ms)).plan_files()
        gone = [task.file for task in found if (day := day_of(task.file)) is not None and day < oldest.toordinal()]
        if gone:
            tables.commit(table, removed=gone)
        count += len(gone)
    return count


def compacted(spark: SparkSession, tables: IcebergArchive, tell: Callable[[str], None]) -> int:
    """Put small files together; give their number."""
    count = 0
    for name in ARCHIVED:
        for group in small(task.file for task in tables.table(name).scan().plan_files()):
            tell(f"{len(group)} small files of {name}")
            files = [File(tables.catalog.io.name(file.file_path), file.file_size_in_bytes) for file in group]
            rows = frame_of(spark, JournalScan((tables.files.root,), name), files)
            found = written(_ordered(rows, name, files), tables, name)
            if sum(file.record_count for file in found) != sum(file.record_count for file in group):
                raise DamagedJournal(
                    f"{tables.files.root}: rows of {name} were lost while files were put together; run it again"
                )
            tables.commit(tables.table(name), found, group)
            count += len(group)
    return count


def small(files: Iterator[DataFile]) -> Iterator[list[DataFile]]:
    """Groups of small files that are worth putting together: whole days, of sizes of which there are enough."""
    days: dict[int, list[DataFile]] = defaultdict(list)
    for file in files:
        if file.file_size_in_bytes < SMALL_BYTES:
            days[day_of(file) or 0].append(file)
    chosen: list[DataFile] = []
    for _, day in sorted(days.items()):
        counts = Counter(bisect(TIERS, file.file_size_in_bytes) for file in day)
        full = [tier for place, tier in enumerate(TIERS) if counts[place] >= SMALL_FILES_MIN]
        chosen += (file for file in day if full and file.file_size_in_bytes < full[-1])
        if sum(file.file_size_in_bytes for file in chosen) > COMPACTED_BYTES:
            yield chosen
            chosen = []
    if chosen:
        yield chosen


def day_of(file: DataFile) -> int | None:
    """The day of a file, as Python counts days."""
    day = file.partition[0]
    return None if day is None else datetime.fromtimestamp(0, UTC).date().toordinal() + int(day)


def _ordered(rows: DataFrame, name: str, files: list[File]) -> DataFrame:
    """Rows in as many pieces as they need files, each a range of a day's queues and times."""
    time = F.col(TIME_COLUMNS[name])
    keys = [F.floor(F.unix_millis(time) / DAY_MS), F.col(NAME_COLUMNS[name]), time, F.col(NUMBER_COLUMNS[name])]
    pieces = -(-sum(file.bytes for file in files) // FILE_BYTES)
    gathered = rows.coalesce(1) if pieces == 1 else rows.repartitionByRange(pieces, *keys)
    return gathered.sortWithinPartitions(*keys)
