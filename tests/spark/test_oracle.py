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
from tests.server_process import ServerProcess
from tests.spark.oracle import ClientLog, Workload, restarted
from tests.text_table import text_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL = {"LEVERET_HISTORY_EVENTS": "all"}
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


def examine(spark: SparkSession, server: ServerProcess, tmp_path: Path, count: int, seed: int) -> None:
    """Run a workload, stop the server, and compare; then again after it was started once more."""
    with server:
        client = Workload(server.url, count, seed).run()
    history = seen(events_of(spark, server))
    print(table(client, history))
    assert history == client
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


def test_history_has_every_message_that_a_client_sent(spark: SparkSession, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", "1"))
    examine(spark, ServerProcess(tmp_path, environ=ALL), tmp_path, COUNT, seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_history_has_every_message_of_a_long_workload(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    examine(spark, ServerProcess(tmp_path, environ=ALL), tmp_path, COUNT_SLOW, seed)
