"""Publishing rows to a broker through the sink: each numbered batch once, however often it is tried."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from leveret.client.broker import connect
from leveret.clock import Clock, SystemClock, closed_gate
from leveret.core.errors import InvalidArgument

RATE_MAX = 10_000_000
BURST_S = 5
"""With a rate limit, what is published at once is at most that of so many seconds."""
BATCH_ROWS = 50_000
BATCH_ROWS_MAX = 1_000_000

Reader = TypeVar("Reader", DataFrameReader, DataStreamReader)
Writer = TypeVar("Writer", DataFrameWriter, DataStreamWriter)
Publish = Callable[[DataFrame, str, int], None]
"""Publishes rows as batch number n of a sink."""


@dataclass(frozen=True)
class SinkBroker:
    """Where the sink is."""

    url: str
    token: str | None = None
    vhost: str | None = None

    def publish(self, rows: DataFrame, sink: str, batch: int) -> None:
        """Publish rows as a batch; one that was published before is not published again."""
        self.writer(rows.write, f"{sink}-{batch}").mode("append").save()

    def writer(self, writer: Writer, sink: str) -> Writer:
        """A writer to a sink of this broker."""
        return writer.format("leveret").options(**self._options, sinkId=sink)

    def reader(self, reader: Reader, queue: str) -> Reader:
        """A reader of a queue of this broker."""
        return reader.format("leveret").options(**self._options, queue=queue)

    @property
    def _options(self) -> dict[str, str]:
        given = {"url": self.url, "token": self.token, "vhost": self.vhost}
        return {name: value for name, value in given.items() if value is not None}

    def browsed(self, spark: SparkSession, queue: str) -> DataFrame:
        """What is ready in a queue; nothing is taken."""
        return self.reader(spark.read, queue).load()

    def check(self, queue: str) -> None:
        """Refuse a broker that does not answer, and a queue that is not there: Spark need not start for that."""
        with connect(self.url, token=self.token, vhost=self.vhost) as broker:
            broker.queue(queue, create=False).stats()

    def declare(self, queues: list[str]) -> None:
        """Make queues that are not there yet."""
        with connect(self.url, token=self.token, vhost=self.vhost) as broker:
            for name in queues:
                broker.queue(name)


class Pace:
    """Keeps to a number of messages per second."""

    def __init__(self, rate: float | None, clock: Clock | None = None) -> None:
        """Begin now; None is as fast as it goes."""
        if rate is not None and not 0 < rate <= RATE_MAX:
            raise InvalidArgument(f"rate={rate!r}: give messages per second, up to {RATE_MAX}")
        self.rate = rate
        self._clock = SystemClock() if clock is None else clock
        self._due_ms = 0.0

    def batch_rows(self, wanted: int | None = None) -> int:
        """How many messages one batch may have."""
        if wanted is not None and not 0 < wanted <= BATCH_ROWS_MAX:
            raise InvalidArgument(f"batch_rows={wanted!r}: give a number of messages, up to {BATCH_ROWS_MAX}")
        most = wanted or BATCH_ROWS
        return most if self.rate is None else max(1, min(most, int(self.rate * BURST_S)))

    def wait(self, rows: int) -> None:
        """Wait until so many messages may be published."""
        if self.rate is None:
            return
        now_ms = self._clock.now_ms()
        if self._due_ms > now_ms:
            self._clock.wait(closed_gate(), int(self._due_ms))
        self._due_ms = max(self._due_ms, now_ms) + 1000 * rows / self.rate
