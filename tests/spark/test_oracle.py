"""History against what a client saw that knows nothing of it: every message, however it came and left."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pika
import pytest

from leveret.spark.check import compared, completeness
from leveret.spark.lifecycle import lifecycle
from leveret.spark.report import build
from leveret.spark.report.findings import rows_of
from leveret.spark.report.traffic import refusals, stream_traffic
from leveret.spark.tables import read_table
from tests.server_process import ServerProcess
from tests.spark.conftest import Run
from tests.spark.oracle import ClientLog, Workload, restarted
from tests.spark.test_commands import readme_commands
from tests.text_table import text_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SEEDS = (1, 2, 3)
COUNT, COUNT_SLOW = 30, 3_000


def seen(events: DataFrame) -> ClientLog:
    """What history tells, in the form of the client's log."""
    lives = lifecycle(events).groupBy("queue", "outcome", "transient").count().collect()
    refused = refusals(events).collect()
    streamed = stream_traffic(events).collect()
    return ClientLog(
        Counter({(row.queue, row.outcome, row.transient): row["count"] for row in lives}),
        Counter({(row.queue or f"exchange {row.exchange}", row.reason): row.publishes for row in refused}),
        Counter({(row.queue, what): row[what] for row in streamed for what in ("appended", "read")}),
    )


def table(client: ClientLog, history: ClientLog) -> str:
    """Both beside each other."""
    rows = []
    for kind in ("outcomes", "refused", "streams"):
        own, told = getattr(client, kind), getattr(history, kind)
        for key in sorted(own.keys() | told.keys()):
            queue, what, *transient = key
            said = f"{what}, transient" if transient == [True] else what
            name = "(exclusive)" if queue.startswith("amq.gen") else queue
            rows.append((name, said, str(own[key]), str(told[key]), str(told[key] - own[key])))
    return text_table(("queue", "what", "client", "history", "difference"), rows)


def examine(spark: SparkSession, run: Run, tmp_path: Path, count: int, seed: int) -> None:
    """Do what the README says on a default server with a workload, and compare; then again after a stop and a start."""
    server = ServerProcess(tmp_path)
    with server:
        client = Workload(server, count, seed).run()
        read = spark.read.format("leveret").options(url=server.http_url, stream="log").load().select("value").collect()
        client.streams["log", "read"] += len(read)
        places = {name: str(tmp_path / name) for name in ("data", "archive", "report")}
        for job in ("archive", "report", "check"):
            (flags,) = (flags for name, *flags in readme_commands() if name == job)
            told = run(job, *(places.get(flag, flag) for flag in flags))
    assert told["figures"] > told["differences"] == told["lost"] == 0
    archived = seen(read_table(spark, "events", path=places["archive"]))
    print(table(client, archived))
    assert archived == client
    reported = spark.read.parquet(f"{places['report']}/tables/outcomes").collect()
    assert {(row.queue, row.outcome, row.transient): row.messages for row in reported} == client.outcomes
    assert seen(events_of(spark, server)) == client, "all of it is in the log still"
    facts = complete(spark, server)
    assert facts["differences"] == facts["lost"] == 0, rows_of(compared(events_of(spark, server)))
    assert facts["figures"] > len({queue for queue, *_ in client.outcomes})
    report = build(spark, {"path": str(server.data)}, tmp_path / "report")
    assert report.findings.of("completeness")[0]["differences"] == 0
    told = {(row["queue"], row["outcome"], row["transient"]): row["messages"] for row in report.findings.of("outcomes")}
    assert told == client.outcomes
    with server, pika.BlockingConnection(pika.URLParameters(server.url)) as connection:
        connection.channel().basic_publish("", "left", b"one more")
    client.outcomes["left", "open", True] += 0
    after = seen(events_of(spark, server))
    client = restarted(client)
    client.outcomes["left", "open", True] = 1
    assert after == client
    assert complete(spark, server)["differences"] == 0


def events_of(spark: SparkSession, server: ServerProcess) -> DataFrame:
    return spark.read.format("leveret").load(str(server.data))


def complete(spark: SparkSession, server: ServerProcess) -> dict[str, int]:
    """What `leveret pipeline check` tells."""
    events = events_of(spark, server)
    (facts,) = rows_of(completeness(events, compared(events)))
    return facts


def test_history_has_every_message_that_a_client_sent(spark: SparkSession, run: Run, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", "1"))
    examine(spark, run, tmp_path, COUNT, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_history_has_every_message_of_a_long_workload(spark: SparkSession, run: Run, tmp_path: Path, seed: int) -> None:
    examine(spark, run, tmp_path, COUNT_SLOW, seed)
