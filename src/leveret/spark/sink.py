"""What Spark writes by: each task stages its rows, the driver commits all of them at once.

    task     write(batches) -> pieces of a part that no other attempt has -> its name, if it ends well
    driver   commit(names)  -> published once, however often it is asked for
             abort(names)   -> dropped; what was committed stays

The answer to a commit may be lost, and Spark repeats batches whose end it did not note: the server knows each batch by
the sink and its number.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from secrets import token_hex

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from leveret.client.broker import RemoteBroker, connect
from leveret.client.sinks import abort_parts, commit_batch, put_piece
from leveret.clock import ticks_us
from leveret.core.errors import LeveretError, Unreachable
from leveret.spark.row_groups import row_groups
from leveret.spark.server import Origin
from leveret.spark.spark_api import DataSourceStreamArrowWriter
from leveret.spark.target import SinkTarget

RETRIES = 10  # about 20 seconds: a server that restarts is waited for
CLIENTS_MAX = 8  # a worker of Spark lives long, and tokens change
CLIENTS: dict[Origin, RemoteBroker] = {}


@dataclass(frozen=True)
class StagedPart(WriterCommitMessage):
    """What one task has staged."""

    name: str
    pieces: int
    rows: int


class Stage:
    """What both writers do."""

    def __init__(self, target: SinkTarget) -> None:
        self.target = target

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedPart:
        """Stage the rows of one task, under a name that no other attempt has."""
        context = TaskContext.get()
        task = "0-0" if context is None else f"{context.partitionId()}-{context.attemptNumber()}"
        name = f"{task}-{token_hex(8)}"
        server, sink = self._server, self.target.sink
        count = total = 0
        try:
            for rows, data in row_groups(iterator, self.target.constants):
                server.run(put_piece(sink, name, count, data))
                count += 1
                total += rows
        except BaseException:
            with suppress(LeveretError):
                server.run(abort_parts(sink, [name]))
            raise
        return StagedPart(name, count, total)

    def publish(self, messages: Sequence[WriterCommitMessage | None], batch: int) -> None:
        """Commit what was staged, and wait until all of it is published."""
        parts = _staged(messages)
        named = [(part.name, part.pieces) for part in parts if part.pieces]
        options = {"origin": self.target.origin, "once": self.target.once, "unroutable": self.target.unroutable}
        options |= self.target.destination
        order = commit_batch(self.target.sink, batch, named, sum(part.rows for part in parts), **options)
        done, since_us = -1, 0
        while not (progress := self._server.run(order)).published:
            if progress.done > done:
                done, since_us = progress.done, ticks_us()
            elif ticks_us() - since_us > self.target.commit_s * 1_000_000:
                raise Unreachable(
                    f"batch {batch} stands still after {done} rows: see whether a queue or the disk is full"
                )

    def drop(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Let go of what was staged, as far as the server can be reached: the rest is swept."""
        with suppress(LeveretError):
            self._server.run(abort_parts(self.target.sink, [part.name for part in _staged(messages)]))

    @property
    def _server(self) -> RemoteBroker:
        return _connected(self.target.server)


class BatchWriter(Stage, DataSourceArrowWriter):
    """`df.write`: one batch of a sink of its own."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.publish(messages, 0)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.drop(messages)


class StreamWriter(Stage, DataSourceStreamArrowWriter):
    """`df.writeStream`: a batch for each micro-batch."""

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.publish(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.drop(messages)


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[StagedPart]:
    """What tasks have staged; one that failed tells nothing."""
    return [each for each in messages if isinstance(each, StagedPart)]


def _connected(server: Origin) -> RemoteBroker:
    """One client for all tasks of a process: connections stay open from batch to batch."""
    if server not in CLIENTS:
        if len(CLIENTS) >= CLIENTS_MAX:
            CLIENTS.pop(next(iter(CLIENTS))).close()
        tls, timeout = server.tls, server.request_s
        CLIENTS[server] = connect(
            server.url, token=server.token, tls=tls, timeout=timeout, retries=RETRIES, vhost=server.vhost
        )
    return CLIENTS[server]
