"""`leveret pipeline rehearse`: a past period is replayed for other consumers, and what became of it is compared."""

import os
import secrets
import shutil
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from leveret.clock import SystemClock
from leveret.core.errors import InvalidArgument
from leveret.spark import rehearsal
from leveret.spark.commands.context import Context, Outcome, PrintedRows
from leveret.spark.directories import pattern_of
from leveret.spark.lifecycle import lifecycle
from leveret.spark.options import moment_ms
from leveret.spark.progress import Status
from leveret.spark.publishing import SinkBroker
from leveret.spark.rehearsal import COUNTS, TIMES, RehearsalVhost, Slices
from leveret.spark.report.findings import rows_of
from leveret.spark.segments import is_data_directory
from leveret.spark.tables import read_table
from leveret.spark.wording import duration, exact
from leveret.spark.writing import write_parquet

SHOWN_MAX = 100
MARGIN = timedelta(minutes=10)
"""Clocks of the server and of this machine may differ by so much."""
TAGS = "vhost,queue,queue_id,offset,headers,x_death"
DIFFERENCE = (
    "queue",
    "id",
    "message_id",
    "correlation_id",
    "outcome_before",
    "outcome",
    "deliveries_before",
    "deliveries",
)


def run(context: Context) -> Outcome:
    """Publish a period again, wait for consumers, and print what differs."""
    given = context.given
    words = None if given.consumer is None else rehearsal.command(given.consumer)
    rehearsal.checked_speed(given.speed)
    if not (given.yes or given.keep or sys.stdin.isatty()):
        raise InvalidArgument("give --yes to remove the virtual host of the rehearsal at its end, or --keep")
    data = given.data or given.path
    if not is_data_directory(data):
        raise InvalidArgument(f"{data} is no data directory: name that of the server at --url by --data")
    host = RehearsalVhost(given.url, given.token, given.into or f"rehearsal-{secrets.token_hex(4)}")
    rows = os.path.join(given.out, "rows")
    with context.spark() as (spark, status):
        try:
            status.tell("choosing messages")
            queues = [] if given.queue is None else [name.strip() for name in given.queue.split(",")]
            chosen = rehearsal.originals(context.table(spark, "messages"), given.vhost, queues, given.speed)
            slices = rehearsal.put_aside(chosen, rows)
            host.create(given.vhost)
            try:
                facts, since = rehearsed(context, host, slices, words, status)
                return report(context, spark, host, slices, (facts, since, data))
            finally:
                if given.yes or (not given.keep and sure(host)):
                    host.delete()
        finally:
            host.close()
            shutil.rmtree(rows, ignore_errors=True)


def rehearsed(
    context: Context, host: RehearsalVhost, slices: Slices, words: list[str] | None, status: Status
) -> tuple[dict[str, Any], datetime]:
    """Publish and wait; what is to be said about it, and when it began."""
    given, clock = context.given, SystemClock()
    began_ms = clock.now_ms()
    host.prepare(slices)
    environment = host.environment(given.amqp_url)
    facts: dict[str, Any] = {"vhost": host.name, "messages": slices.messages, "queues": len(slices.queues)}
    if words is None:
        address = environment.get("AMQP_URL", given.url)
        print(f"waiting for consumers at {address.rpartition('@')[2]}", file=context.stderr, flush=True)
    with rehearsal.consuming(words, environment, os.path.join(given.out, "consumer.log")) as consumer:
        broker = SinkBroker(given.url, given.token, host.name)
        late_ms = rehearsal.publish(slices, broker, host.name, paced=given.speed > 0, told=status.share)
        status.tell("waiting for consumers")
        facts["drained"] = host.drained(slices.queues, given.patience, consumer)
        if consumer is not None and (code := consumer.poll()) is not None:
            facts["consumer ended with"] = code
    facts |= {"seconds": round((clock.now_ms() - began_ms) / 1000, 1), "published late by ms": late_ms}
    host.seal()
    return facts, datetime.fromtimestamp(began_ms / 1000, UTC) - MARGIN


def report(
    context: Context,
    spark: SparkSession,
    host: RehearsalVhost,
    slices: Slices,
    run: tuple[dict[str, Any], datetime, str],
) -> Outcome:
    """Compare, write the tables, and print them."""
    given, (facts, since, data) = context.given, run
    options = {name: value for name, value in context.options().items() if name != "until"}
    before = lives_of(read_table(spark, "events", **options), given.vhost).where("enqueued_at is not null")
    for name, sign in (("since", ">="), ("until", "<")):
        if (text := getattr(given, name)) is not None:
            before = before.where(f"enqueued_at {sign} timestamp_millis({moment_ms(name, text)})")
    keys = {name: value for name, value in options.items() if name.startswith("encryption_key_")}
    served = {"path": data, "since": since.isoformat(), **keys}
    again = read_table(spark, "messages", **served, columns=TAGS).where(F.col("vhost") == host.name)
    now = lives_of(read_table(spark, "events", **served), host.name)
    if given.queue is not None:
        now = now.where(F.col("queue").isin(*slices.queues))
    before, now = (kept(spark, given.out, name, lives) for name, lives in (("before", before), ("now", now)))
    queues = kept(spark, given.out, "queues", rehearsal.compared(before, now))
    fates = kept(spark, given.out, "messages", rehearsal.fates(slices.rows, before, now, again))
    differing = fates.where("differs")
    facts["outcomes that differ"] = differing.count()
    rows = rows_of(queues.orderBy("queue"))
    shown = rows_of(differing.orderBy("queue", "enqueued_at", "id").select(*DIFFERENCE).limit(SHOWN_MAX))
    figures = (PrintedRows("queues", tuple(rows[0]), rows),) if given.json else printed(rows)
    return Outcome(
        {**facts, "tables": os.path.join(given.out, "tables")},
        (*figures, PrintedRows("differences", DIFFERENCE, shown)),
    )


def printed(rows: list[dict[str, Any]]) -> tuple[PrintedRows, ...]:
    """What became of messages, and their times: as it was, and as it is."""
    listings = []
    for title, names, text in (("queues", COUNTS, exact), ("times", TIMES, duration)):
        heads = {name: name.removesuffix("_ms").replace("_", " ") for name in names}
        lines = []
        for row in rows:
            then_and_now = {head: f"{text(row[f'{name}_before'])} → {text(row[name])}" for name, head in heads.items()}
            lines.append({"queue": row["queue"]} | then_and_now)
        listings.append(PrintedRows(title, ("queue", *heads.values()), lines))
    return tuple(listings)


def lives_of(events: DataFrame, vhost: str) -> DataFrame:
    """The lives of messages in a virtual host; starts of the broker are of none."""
    return lifecycle(events.where((F.col("vhost") == vhost) | F.col("vhost").isNull())).where(F.col("vhost") == vhost)


def kept(spark: SparkSession, out: str, name: str, table: DataFrame) -> DataFrame:
    """A table as it was written."""
    path = os.path.join(out, "tables", name)
    write_parquet(table, path, mode="overwrite")
    return spark.read.schema(table.schema).parquet(pattern_of(path))


def sure(host: RehearsalVhost) -> bool:
    """Whether the user wants the virtual host to be removed."""
    print(f"delete vhost '{host.name}' and all in it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")
