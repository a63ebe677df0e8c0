"""Streaming queries on streams: which offsets each batch has, and what the checkpoint keeps.

{"0": 42, "1": 17, "id": 7}                       one stream that is named: the next offsets, and its id
{"clicks": {"0": 42, "id": 7}, "views": {...}}    several, or those of a pattern
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from leveret.core.errors import InvalidArgument
from leveret.spark.options import WHOLE_MAX, Options, seconds, whole
from leveret.spark.spans import OffsetSpan, PartitionKey, shared
from leveret.spark.spark_api import (
    OFFSETS_GIVEN,
    VERSION,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
    need_spark,
)
from leveret.spark.streams import Ends, Position, StreamSource, Surveys, differ, read_task


@dataclass(frozen=True)
class StreamAdmission:
    """How much one batch takes."""

    starting: dict[str, str]
    records_max: int | None
    bytes_max: int | None
    records_min: int
    delay_s: float
    group: str | None = None

    @classmethod
    def of(cls, options: Options) -> "StreamAdmission":
        """What options say."""
        for name in ("maxRecordsPerTrigger", "maxBytesPerTrigger", "minRecordsPerTrigger", "group"):
            if name.lower() in options:
                need_spark(OFFSETS_GIVEN, f"the option {name}")
        if "group" in options and "url" not in options:
            raise InvalidArgument("the server shows how far a group is: give its url, or leave the option group out")
        return cls(
            {name: text for name, text in options.items() if name.startswith("startingoffsets")},
            whole(options, "maxRecordsPerTrigger"),
            whole(options, "maxBytesPerTrigger"),
            whole(options, "minRecordsPerTrigger") or 0,
            seconds(options, "maxTriggerDelay", 15 * 60),
            options.get("group"),
        )


Offset = dict[str, Any]


class OffsetReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query on streams. The driver's one lives as long as the query; tasks have copies of it."""

    def __init__(self, source: StreamSource, admission: StreamAdmission) -> None:
        self.source = source
        self.admission = admission
        self._target: Position | None = None
        self._waited_since_s: float | None = None
        self._noted: dict[PartitionKey, int] = {}

    def initialOffset(self) -> Offset:
        """Where a new query begins."""
        return self._named(self.source.offsets(self.admission.starting, "startingOffsets", "latest"))

    def getDefaultReadLimit(self) -> ReadLimit:
        """What a batch takes; the other limits are applied with it."""
        admission = self.admission
        if admission.records_max is None and admission.bytes_max is None:
            return ReadAllAvailable()
        return ReadMaxRows(admission.records_max or WHOLE_MAX)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and nothing that comes later."""
        self._target = Position.end_of(self.source.surveys())

    def latestOffset(self, start: Offset | None = None, limit: ReadLimit | None = None) -> Offset:
        """How far the next batch goes; Spark before 4.2 does not say where it begins."""
        if start is None:
            return self.reportLatestOffset()
        surveys = self.source.surveys()
        end = Position.end_of(surveys) if self._target is None else self._target
        begin = self._begin(self._position(start), end, surveys)
        self._note({key: offset for key, offset in begin.items() if key.stream in surveys})
        waiting = {key: max(0, last - begin[key]) for key, last in end.at.items()}
        if self._should_wait(sum(waiting.values())):
            return start
        if isinstance(limit, ReadAllAvailable) or not any(waiting.values()):
            return self._named(end)
        if self.admission.records_max is not None:
            waiting = shared(waiting, self.admission.records_max)
        if self.admission.bytes_max is not None:
            waiting |= self._within(
                [OffsetSpan(key, begin[key], begin[key] + rows) for key, rows in waiting.items() if rows],
                self.admission.bytes_max,
            )
        return self._named(end._replace(at={key: begin[key] + rows for key, rows in waiting.items()}))

    def _note(self, done: dict[PartitionKey, int]) -> None:
        """Tell the consumer group of the query how far it is: what comes before these offsets is in the sink."""
        if self.admission.group is not None and done != self._noted:
            for name, keys in groupby(sorted(done), key=lambda key: key.stream):
                offsets = {key.number: done[key] for key in keys}
                self.source.broker.stream(name).note(self.admission.group, offsets)
            self._noted = done

    def _within(self, spans: list[OffsetSpan], bytes_max: int) -> dict[PartitionKey, int]:
        """How many records of each span its share of so many bytes has."""
        size = max(1, bytes_max // len(spans))
        found: dict[PartitionKey, int] = {}
        for stream, some in groupby(spans, key=lambda span: span.partition.stream):
            own = list(some)
            reached = self.source.broker.stream(stream).reach(own, size)
            found |= {span.partition: min(span.rows, reached[span.partition.number] - span.first) for span in own}
        return found

    def _begin(self, start: Position, end: Position, surveys: Surveys) -> dict[PartitionKey, int]:
        """Where the next batch begins; what the checkpoint knows and is not there any more is a loss."""
        gone = {key.stream for key in start.at} - {key.stream for key in end.at}
        if gone:
            self.source.lost(f"stream {min(gone)!r} is gone")
        anew = {name for name in surveys if differ(start.ids, surveys, name)}
        if anew:
            self.source.lost(f"stream {min(anew)!r} was deleted and made anew: its records are others")
        begin = {}
        for key, last in end.at.items():
            there = surveys[key.stream].ends.get(key.number, Ends(0, 0)) if key.stream in surveys else Ends(0, last)
            begin[key] = there.first if key.stream in anew else start.at.get(key, there.first)
            if begin[key] > last and self._target is None:
                self.source.lost(
                    f"partition {key.number} of stream {key.stream!r} ends at offset {last}, before {begin[key]}"
                )
                begin[key] = there.first
        return begin

    def _should_wait(self, rows: int) -> bool:
        """Whether there is too little for a batch, and there is still time."""
        now_s = time.monotonic()
        if self._target is not None or rows >= self.admission.records_min or not rows:
            self._waited_since_s = None
            return False
        if self._waited_since_s is None:
            self._waited_since_s = now_s
        if now_s - self._waited_since_s < self.admission.delay_s:
            return True
        self._waited_since_s = None
        return False

    def reportLatestOffset(self) -> Offset:
        """The end of the streams: progress shows how far the query is behind it."""
        return self._named(Position.end_of(self.source.surveys()))

    def partitions(self, start: Offset, end: Offset) -> list[InputPartition]:
        """The tasks of a batch."""
        begin, until = self._position(start), self._position(end)
        if VERSION < OFFSETS_GIVEN:  # latestOffset could not look
            begin.at.update(self._begin(begin, until, self.source.surveys()))
        return self.source.tasks(begin, until)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one task."""
        return read_task(self.source, partition)

    def commit(self, end: Offset) -> None:
        """Nothing: the checkpoint is the only memory."""

    def stop(self) -> None:
        """Nothing is kept open."""

    def _named(self, position: Position) -> Offset:
        """Offsets as Spark keeps them: of one stream {"0": 42, "id": 7}, of several {"clicks": {"0": 42, "id": 7}}."""
        found: dict[str, dict[str, int]] = {name: {} for name in position.ids}
        for key, offset in sorted(position.at.items()):
            found[key.stream][str(key.number)] = offset
        for name, number in position.ids.items():
            found[name] |= {"id": number} if number else {}
        return found if self._one is None else found[self._one]

    def _position(self, offset: Offset) -> Position:
        """The reverse of _named."""
        if not any(isinstance(each, dict) for each in offset.values()) and offset:
            if self._one is None:
                raise InvalidArgument("the checkpoint is of a query on one stream: name that one, or begin anew")
            offset = {self._one: offset}
        at = {
            PartitionKey(name, int(number)): each
            for name, numbers in offset.items()
            for number, each in numbers.items()
            if number != "id"
        }
        return Position({name: numbers.get("id", 0) for name, numbers in offset.items()}, at)

    @property
    def _one(self) -> str | None:
        """The stream, if the query names one."""
        choice = self.source.choice
        return choice.names[0] if len(choice.names) == 1 and choice.partitions is None else None
