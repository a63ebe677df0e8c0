"""Queues for Spark: as a stream, by reservations of the server, and as a table, without taking anything.

The offset of a streaming query is the number of a reservation (core/reservations.py). Spark asks for the next offset
with the one that it is done with, which acknowledges what came before; whatever it repeats until then (tasks, batches,
the whole query after a restart) reads the same messages. No clock ends a reservation, unless the option `lease` names
one: then a thread of the driver's process renews it.
"""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from leveret.core.errors import LeveretError, NotFound, PreconditionFailed
from leveret.core.page import PageColumns, read_page
from leveret.core.reservations import LEASE_MS_MIN, MESSAGES_MAX, SHARES_MAX
from leveret.spark.columns import Table, chosen
from leveret.spark.messages import with_headers
from leveret.spark.options import Options, check_names, flag, moment_ms, required, seconds, whole
from leveret.spark.records import QUEUE, VHOST, queue_batch
from leveret.spark.segments import QueueName
from leveret.spark.server import Origin, SparkServer, path_of
from leveret.spark.spans import OffsetSpan, PartitionKey, split
from leveret.spark.spark_api import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

GROUP = "spark"
BATCH_ROWS = 100_000
"""What a batch takes unless the query says more."""
TASKS = 2
RENEWALS = 3
"""How often a reservation is renewed within its lease."""


@dataclass(frozen=True)
class QueueSource:
    """A queue of a server and the columns that are wanted; fit to be sent to another process."""

    origin: Origin
    queue: str
    columns: str | None
    headers: str

    @classmethod
    def of(cls, options: Options) -> "QueueSource":
        """What options say."""
        check_names(options, "queue")
        headers = options.get("includeheaders", "true")
        source = cls(Origin.of(options), required(options, "queue"), options.get("columns"), headers)
        chosen(source.table, None)  # what is wrong with columns is told here
        return source

    @property
    def table(self) -> Table:
        """The columns that are read."""
        return chosen(with_headers(QUEUE, self.headers), self.columns)

    @property
    def server(self) -> SparkServer:
        """The server, with connections of this process."""
        return self.origin.server

    def path(self, *parts: str) -> str:
        """A path below the queue's."""
        return path_of("queues", self.queue, *parts)

    def pages(self, path: str, at: str, next_name: str, **query: object) -> Iterator[pa.RecordBatch]:
        """Pages one after the other, as Arrow batches."""
        while True:
            page = self.page(path, **query, **{next_name: at})
            if page.rows:
                yield queue_batch(self.table, QueueName(self.origin.vhost or VHOST, self.queue), page)
            if not page.next_at:
                return
            at = page.next_at

    def page(self, path: str, **query: object) -> PageColumns:
        """One page."""
        return read_page(self.server.ask("GET", path, **query).body, f"{self.server.address!r}{path}")


# As a table


class BrowseReader(DataSourceReader):
    """What is ready in a queue, in the order of delivery; nothing is taken."""

    def __init__(self, source: QueueSource, options: Options) -> None:
        self.source = source
        times = {name: moment_ms(name, options[name]) / 1000 for name in ("since", "until") if name in options}
        self.conditions = {**times, "routing_key": options.get("routingkey")}

    def partitions(self) -> list[InputPartition]:
        """One: the order of a queue is one order."""
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """All pages."""
        return self.source.pages(self.source.path("pages"), "", "after", **self.conditions)


# As a stream


@dataclass(frozen=True)
class QueueAdmission:
    """How much of a queue one batch takes, and how it is spread over tasks."""

    group: str
    lease_s: float | None
    records_max: int
    bytes_max: int | None
    records_min: int
    delay_s: float
    partitions_min: int
    partition_records_max: int | None
    groups_together: bool
    fail_on_data_loss: bool

    @classmethod
    def of(cls, options: Options) -> "QueueAdmission":
        """What options say."""
        return cls(
            options.get("group", GROUP),
            max(seconds(options, "lease", 0), LEASE_MS_MIN / 1000) if "lease" in options else None,
            min(whole(options, "maxRecordsPerTrigger") or BATCH_ROWS, MESSAGES_MAX),
            whole(options, "maxBytesPerTrigger"),
            whole(options, "minRecordsPerTrigger") or 0,
            seconds(options, "maxTriggerDelay", 15 * 60),
            whole(options, "minPartitions") or TASKS,
            whole(options, "maxRecordsPerPartition"),
            flag(options, "groupsTogether", False),
            flag(options, "failOnDataLoss", True),
        )


@dataclass(frozen=True)
class ReservationPartition(InputPartition):
    """A part of a reservation: some messages, and of those one share of the message groups."""

    number: int
    first: int
    end: int
    share: int = 0
    shares: int = 1

    def __post_init__(self) -> None:
        """Spark's own field is not needed."""


class ReservationReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side, which lives as long as the query, and the tasks' side, which is a copy of it."""

    def __init__(self, source: QueueSource, admission: QueueAdmission) -> None:
        self.source = source
        self.admission = admission
        self._left: int | None = None  # of AvailableNow: messages that were there when it began
        self._waited_since_s: float | None = None
        self._keeper: Keeper | None = None

    def __getstate__(self) -> dict[str, Any]:
        """What tasks need: no threads."""
        return {**self.__dict__, "_keeper": None}

    @property
    def _path(self) -> str:
        return self.source.path("reservations", self.admission.group)

    def _told(self) -> dict[str, int]:
        """What the group has, by the word of the server."""
        found: dict[str, int] = self.source.server.ask("GET", self._path).json()
        return found

    def _reserve(self, start: int, count: int) -> dict[str, int]:
        """Be done with what comes before `start`, and reserve so many messages after it."""
        admission = self.admission
        told = {"max_bytes": admission.bytes_max, "lease_seconds": admission.lease_s}
        body = {"start": start, "max_messages": count, **{key: value for key, value in told.items() if value}}
        found: dict[str, int] = self.source.server.ask("POST", self._path, body).json()
        return found

    def initialOffset(self) -> dict[str, int]:
        """Where the group is."""
        return {"reservation": self._told()["start"]}

    def getDefaultReadLimit(self) -> ReadLimit:
        """What a batch takes at most."""
        return ReadMaxRows(self.admission.records_max)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Reserve the next messages: Spark is done with everything before `start`."""
        count = self.admission.records_max
        if self._left is not None:
            count = min(count, self._left)
        try:
            if count and self._should_wait(start):
                count = 0
            reserved = self._reserve(start["reservation"], count)
        except PreconditionFailed:
            if self.admission.fail_on_data_loss:
                raise
            reserved = self._reserve(self._told()["start"], count)
        if self._left is not None:
            self._left = max(0, self._left - reserved["messages"])
        if reserved["messages"]:
            self._keep()
        return {"reservation": reserved["end"]}

    def _should_wait(self, start: dict[str, int]) -> bool:
        """Whether there is too little for a batch, and there is still time."""
        admission = self.admission
        if not admission.records_min or self._left is not None:
            return False
        reserved = self._reserve(start["reservation"], 0)
        if reserved["messages"] or reserved["waiting"] >= admission.records_min or not reserved["waiting"]:
            self._waited_since_s = None
            return False
        now_s = time.monotonic()
        if self._waited_since_s is None:
            self._waited_since_s = now_s
        if now_s - self._waited_since_s < admission.delay_s:
            return True
        self._waited_since_s = None
        return False

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now, and nothing that comes later."""
        told = self._told()
        self._left = told["messages"] + told["waiting"]

    def reportLatestOffset(self) -> dict[str, int]:
        """What is reserved, and how many messages wait behind it."""
        told = self._told()
        return {"reservation": told["end"], "waiting": told["waiting"]}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """Parts of the reservation between two offsets."""
        told = self._told()
        if told["end"] != end["reservation"] or told["start"] == told["end"]:
            if self.admission.fail_on_data_loss:
                raise NotFound(
                    f"group '{self.admission.group}' of queue '{self.source.queue}' has no reservation "
                    f"{end['reservation']}: an operator released it, and its messages are in the queue again. Set the "
                    "option failOnDataLoss to false to go on with what is there"
                )
            return []
        self._keep()
        spans = split(
            [OffsetSpan(PartitionKey(self.source.queue, 0), 0, told["messages"])],
            self.admission.partitions_min,
            self.admission.partition_records_max,
        )
        if self.admission.groups_together:
            shares = min(len(spans), SHARES_MAX)
            return [ReservationPartition(told["end"], 0, told["messages"], share, shares) for share in range(shares)]
        return [ReservationPartition(told["end"], span.first, span.end) for span in spans]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The messages of a part."""
        if not isinstance(partition, ReservationPartition):
            return
        path = f"{self._path}/messages"
        where = {"reservation": partition.number, "end": partition.end}
        if partition.shares > 1:
            where |= {"share": partition.share, "shares": partition.shares}
        try:
            yield from self.source.pages(path, str(partition.first), "at", **where)
        except NotFound:
            if self.admission.fail_on_data_loss:
                raise

    def commit(self, end: dict[str, int]) -> None:
        """Nothing: this comes a batch late, or never; see latestOffset."""

    def stop(self) -> None:
        """Let go of the reservation's keeper."""
        if self._keeper is not None:
            self._keeper.stop()

    def _keep(self) -> None:
        """Renew the lease of what is reserved, for as long as this process lives."""
        if self._keeper is None and self.admission.lease_s is not None:
            self._keeper = Keeper(self.source.server, self._path, self.admission.lease_s)


class Keeper:
    """Renews a reservation, in a thread that ends with its process."""

    def __init__(self, server: SparkServer, path: str, lease_s: float) -> None:
        self._server = server
        self._path = path
        self._lease_s = lease_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leveret-keeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopping.wait(self._lease_s / RENEWALS):
            try:
                self._server.ask("PATCH", self._path, {"lease_seconds": self._lease_s})
            except LeveretError:
                continue  # nothing is reserved now; or the server is away, and the reader reports it

    def stop(self) -> None:
        """End."""
        self._stopping.set()
        self._thread.join()
