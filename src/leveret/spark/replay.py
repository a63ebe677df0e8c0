"""Replay: messages of the archive or journal are published again, in their order, each once.

    checkpoint/state.json           what was asked for, the files, how many of them are done
    checkpoint/rows/part-*.parquet  the chosen and edited messages; each file is a batch

The messages are put aside first. Then file after file goes through the sink under its number; a batch whose end was
not noted is tried again, and the sink knows it. So an interrupted replay goes on where it was, and needs neither the
archive nor the same rows in it any more.
"""

import json
import os
import shutil
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.core.errors import DamagedJournal, InvalidArgument, PreconditionFailed
from leveret.spark.directories import directory, pattern_of
from leveret.spark.edits import PUBLISHED, Aim, aimed, chosen, cleaned, edited
from leveret.spark.publishing import Pace, Publish
from leveret.spark.writing import sync_files, write_parquet
from leveret.storage.disk import Disk, replace_file

SAMPLE_ROWS = 5
FORMAT = 1
_STATE, _ROWS = "state.json", "rows"

Told = Callable[[int, int], None]
"""Hears how many messages of how many are published."""


@dataclass(frozen=True)
class ReplayRequest:
    """What is published again, and where to."""

    where: str | None = None
    edits: tuple[str, ...] = ()
    aim: Aim = field(default_factory=Aim)
    limit: int | None = None

    def __post_init__(self) -> None:
        if self.limit is not None and self.limit < 1:
            raise InvalidArgument(f"limit={self.limit!r}: give a number of messages")


@dataclass(frozen=True)
class ReplayState:
    """How far a replay is."""

    id: str
    request: dict[str, Any]
    files: tuple[tuple[str, int], ...]
    """The name and the rows of each file."""
    done: int = 0
    format: int = FORMAT

    @property
    def rows(self) -> int:
        """All messages."""
        return sum(rows for _, rows in self.files)

    @property
    def published(self) -> int:
        """Those that are published."""
        return sum(rows for _, rows in self.files[: self.done])


@dataclass(frozen=True)
class DryRun:
    """What a replay would do."""

    messages: int
    without_body: int
    """Bodies in the blob store are gone with their messages: these cannot be published again."""
    targets: list[dict[str, Any]]
    sample: list[dict[str, Any]]


def prepared(messages: DataFrame, request: ReplayRequest) -> DataFrame:
    """The chosen messages as they are published, in their order."""
    ordered = chosen(messages, request.where).orderBy("enqueued_at", "offset")
    return changed(ordered if request.limit is None else ordered.limit(request.limit), request)


def changed(messages: DataFrame, request: ReplayRequest) -> DataFrame:
    """Messages as they are published; those whose body is gone cannot be."""
    found = messages.where(F.col("value").isNotNull())
    return edited(cleaned(aimed(found, request.aim)), request.edits).select(*PUBLISHED)


def dry_run(messages: DataFrame, request: ReplayRequest) -> DryRun:
    """Count what would be published, by where it goes, and show some of it."""
    ready = prepared(messages, request)
    lost = chosen(messages, request.where).where(F.col("value").isNull()).count()
    counts = ready.groupBy("exchange", "routing_key").agg(F.count("*").alias("messages"))
    targets = [row.asDict() for row in counts.orderBy(F.desc("messages"), "exchange", "routing_key").collect()]
    shown = ready.select(
        "exchange", "routing_key", "message_id", F.decode(F.substring("value", 1, 80), "UTF-8").alias("body")
    )
    sample = [row.asDict() for row in shown.limit(SAMPLE_ROWS).collect()]
    return DryRun(sum(row["messages"] for row in targets), lost, targets, sample)


def replay(
    messages: DataFrame,
    request: ReplayRequest,
    checkpoint: str,
    publish: Publish,
    pace: Pace,
    batch_rows: int | None = None,
    told: Told = lambda published, rows: None,
) -> ReplayState:
    """Publish messages again, from where the checkpoint is."""
    checkpoint = directory("checkpoint", checkpoint)
    disk = Disk(checkpoint)
    disk.lock()
    try:
        state = _state(disk, messages, request, pace.batch_rows(batch_rows))
        spark = messages.sparkSession
        while state.done < len(state.files):
            name, rows = state.files[state.done]
            pace.wait(rows)
            publish(_batch(spark, checkpoint, name), f"replay-{state.id}", state.done)
            state = replace(state, done=state.done + 1)
            _write(disk, state)
            told(state.published, state.rows)
        shutil.rmtree(os.path.join(checkpoint, _ROWS), ignore_errors=True)
        return state
    finally:
        disk.unlock()


def _state(disk: Disk, messages: DataFrame, request: ReplayRequest, batch_rows: int) -> ReplayState:
    """The state of this replay: as it was left, or new, with its messages put aside."""
    asked = json.loads(json.dumps(asdict(request)))
    if _STATE in disk.names():
        state = _read(disk)
        if state.request != asked:
            raise PreconditionFailed(f"{disk.path} is the checkpoint of another replay: give each its own directory")
        return state
    place = os.path.join(disk.path, _ROWS)
    shutil.rmtree(place, ignore_errors=True)
    # Spark numbers files in the order of the rows.
    written = write_parquet(prepared(messages, request), place, options={"maxRecordsPerFile": str(batch_rows)})
    files = [(path.name, facts.num_rows) for path, facts in written.items()]
    state = ReplayState(uuid.uuid4().hex, asked, tuple((name, rows) for name, rows in files if rows))
    sync_files(str(disk.path), (f"{_ROWS}/{name}" for name, _ in state.files))
    _write(disk, state)
    return state


def _batch(spark: SparkSession, checkpoint: str, name: str) -> DataFrame:
    """The messages of one batch, in their order."""
    return spark.read.parquet(pattern_of(os.path.join(checkpoint, _ROWS, name))).coalesce(1)


def _write(disk: Disk, state: ReplayState) -> None:
    """Note how far it is."""
    replace_file(disk, _STATE, json.dumps(asdict(state)).encode())


def _read(disk: Disk) -> ReplayState:
    """How far it is."""
    try:
        facts = json.loads(disk.read_all(_STATE))
        files = tuple((str(name), int(rows)) for name, rows in facts.pop("files"))
        state = ReplayState(files=files, **facts)
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedJournal(f"{disk.path / _STATE} is damaged: begin again in another directory") from error
    return state
