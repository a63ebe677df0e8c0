"""A redrive of messages that are changed on the way, or go to an exchange: each leaves its queue and arrives once.

    1  the broker moves what was chosen to a queue that only this transfer knows
    2  a streaming query reads that queue by reservations and writes to the sink, which knows its batches
    3  the queue goes, with what the last reservation still held, and then the checkpoint

    checkpoint/transfer.json    what was asked for, and the name of that queue
    checkpoint/query            the checkpoint of the query

Interrupted anywhere, the same call goes on.
"""

import json
import os
import shutil
import uuid
from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from leveret.client.broker import RemoteBroker, connect
from leveret.client.queue import RemoteQueue
from leveret.core.errors import DamagedJournal, PreconditionFailed, QueueNotFound
from leveret.spark.directories import directory, uri_of
from leveret.spark.publishing import Pace, SinkBroker
from leveret.spark.redrive import Redriven, Told, redrive
from leveret.spark.replay import ReplayRequest, changed
from leveret.storage.disk import Disk, replace_file

GROUP = "transfer"
LOOK_S = 1
PREFIX_CHARS = 40  # of the name of a queue, so that names of queues and sinks stay short enough
_STATE, _QUERY = "transfer.json", "query"


@dataclass(frozen=True)
class Transfer:
    """Which messages of which queue of which broker."""

    broker: SinkBroker
    queue: str
    request: ReplayRequest

    @property
    def asked(self) -> dict[str, Any]:
        """What a checkpoint remembers of it."""
        asked: dict[str, Any] = json.loads(json.dumps({"queue": self.queue, **asdict(self.request)}))
        return asked


def transfer(
    spark: SparkSession,
    job: Transfer,
    checkpoint: str,
    pace: Pace,
    batch_rows: int | None = None,
    told: Told = lambda moved, matched: None,
) -> Redriven:
    """Move messages of a queue and change them on the way."""
    checkpoint = directory("checkpoint", checkpoint)
    disk = Disk(checkpoint)
    disk.lock()
    try:
        with connect(job.broker.url, token=job.broker.token) as client:
            name = _own_queue(disk, client, job)
            rows = job.broker.browsed(spark, job.queue)
            done = redrive(
                rows, job.request.where, job.request.limit, client.queue(job.queue, create=False), name, Pace(None)
            )
            own = client.queue(name, create=False)
            _await(_started(spark, job, name, checkpoint, pace, batch_rows), own, pace, told)
            own.delete()
        shutil.rmtree(os.path.join(checkpoint, _QUERY))
        disk.unlink(_STATE)
        return done
    finally:
        disk.unlock()


def _own_queue(disk: Disk, client: RemoteBroker, job: Transfer) -> str:
    """The queue of this transfer: as it was left, or new."""
    if _STATE in disk.names():
        try:
            facts = json.loads(disk.read_all(_STATE))
            name, asked = str(facts["name"]), facts["asked"]
        except (ValueError, TypeError, KeyError) as error:
            raise DamagedJournal(f"{disk.path / _STATE} is damaged: see which queue *.transfer-* is left") from error
        if asked != job.asked:
            raise PreconditionFailed(f"{disk.path} is the checkpoint of another redrive: give each its own directory")
        try:
            client.queue(name, create=False).stats()
            return name
        except QueueNotFound:
            # It ended, or had not begun.
            shutil.rmtree(disk.path / _QUERY, ignore_errors=True)
    name = f"{job.queue[:PREFIX_CHARS]}.transfer-{uuid.uuid4().hex}"
    replace_file(disk, _STATE, json.dumps({"name": name, "asked": job.asked}).encode())
    client.queue(name)
    return name


def _started(
    spark: SparkSession, job: Transfer, name: str, checkpoint: str, pace: Pace, batch_rows: int | None
) -> StreamingQuery:
    """The query that publishes what is in the queue of a transfer."""
    count = pace.batch_rows(batch_rows)
    # One task at a time keeps the order. What was chosen is in that queue: the condition does not count again.
    rows = job.broker.reader(spark.readStream, name).options(
        group=GROUP, maxRecordsPerTrigger=count, minPartitions=1, maxRecordsPerPartition=count
    )
    request = ReplayRequest(edits=job.request.edits, aim=job.request.aim)
    writer = (
        job.broker.writer(changed(rows.load().withColumn("queue", F.lit(job.queue)), request).writeStream, name)
        .option("checkpointLocation", uri_of(os.path.join(checkpoint, _QUERY)))
        .outputMode("append")
    )
    if pace.rate is None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{round(1000 * count / pace.rate)} milliseconds").start()


def _await(query: StreamingQuery, own: RemoteQueue, pace: Pace, told: Told) -> None:
    """Wait until everything is published; a query that keeps to a rate does not end on its own."""
    whole = _held(own)
    try:
        while not query.awaitTermination(LOOK_S):
            left = _held(own)
            told(whole - left, whole)
            if left == 0 and pace.rate is not None:
                return
        told(whole, whole)
    finally:
        query.stop()


def _held(queue: RemoteQueue) -> int:
    """Messages that a queue has, reserved ones too: they are acknowledged once they are published."""
    found = queue.stats()
    return found.ready + found.leased
