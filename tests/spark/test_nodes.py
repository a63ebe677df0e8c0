"""Spark against a cluster of real nodes, some of which are killed while it reads and writes; then its archive."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import StructType

import leveret
from leveret.cli import pipeline
from leveret.clock import SystemClock
from leveret.spark.archive import Archive, archive
from leveret.spark.queues import ReservationReader
from leveret.spark.server import Origin
from leveret.spark.source import LeveretSource
from tests.cluster.processes import Nodes
from tests.cluster.test_web_processes import ask
from tests.ingest.server_kill import appended
from tests.spark.history import rows_of
from tests.spark.test_queues import values
from tests.spark.test_sink import close_clients
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from leveret.client.queue import RemoteQueue
    from tests.cluster.coordination.etcd_process import EtcdProcess

ROWS = 120


@pytest.fixture
def nodes(tmp_path: Path, etcd: EtcdProcess, store_url: str) -> Iterator[Nodes]:
    """A cluster of server processes, none of which runs yet."""
    with Nodes(tmp_path, etcd.url, store_url) as made:
        yield made
    close_clients()


def owner(nodes: Nodes, asked: str, queue: str) -> str:
    """The node that has a queue or a stream."""
    found = ask(nodes, asked, f"GET /api/queues/%2F/{queue}")["node"]
    assert isinstance(found, str)
    return found


def url_of(nodes: Nodes, *names: str) -> str:
    """Nodes as clients know them."""
    return ",".join(f"http://guest:guest@127.0.0.1:{nodes.http_port(name)}" for name in names)


def numbers(first: int, count: int) -> list[bytes]:
    """Bodies."""
    return [b"%d" % number for number in range(first, first + count)]


def received(queue: RemoteQueue) -> list[int]:
    """Everything in a queue, taken."""
    found: list[int] = []
    while taken := queue.receive(100):
        found += [int(message.data) for message in taken]
        queue.ack_many(taken)
    return sorted(found)


def archived_events(spark: SparkSession, store: str, url: str, folder: Path) -> list[dict[str, Any]]:
    """The events of all shards, sealed by one node and archived from the database."""
    pipeline.seal(Namespace(store=store, url=url, token=None, path=None))
    archive(spark, Archive(str(folder), store=store, compact=False), SystemClock().now_ms())
    return rows_of(folder)


# In short: test_streaming.py has queries and a server that is killed, tests/cluster/test_sink_processes.py and
# test_stream_processes.py have batches and readers while nodes are killed.
@pytest.mark.slow
def test_each_row_counts_once_whichever_node_is_killed(
    spark: SparkSession, nodes: Nodes, store_url: str, tmp_path: Path
) -> None:
    nodes.start("a", "b", "c")
    with leveret.connect(url_of(nodes, "b")) as client:
        both = client.exchange("both", "fanout")
        both.bind(client.queue("out"))
        both.bind(client.stream("copy", partitions=2))
        client.stream("in", partitions=2).send_many(numbers(0, ROWS))
    order = sorted(nodes.names, key=owner(nodes, "b", "in").__eq__)  # the owner is asked last
    server = {"url": url_of(nodes, *order)}
    source = {**server, "stream": "in", "startingOffsets": "earliest"}
    read = spark.read.format("leveret").options(**source).load()
    assert sorted(int(row.value) for row in read.select("value").collect()) == list(range(ROWS))

    stream = spark.readStream.format("leveret").options(**source, maxRecordsPerTrigger="100").load()
    sink = stream.select("value").writeStream.format("leveret").options(**server, exchange="both")
    query = sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with leveret.connect(server["url"], retries=20) as client:
            out, copy = client.queue("out", create=False), client.stream("copy", create=False)

            def wait_for(rows: int) -> None:
                wait_until(lambda: out.stats().ready >= rows or not query.isActive)
                assert query.isActive, query.exception()

            for part in (1, 2):
                wait_for((part - 1) * ROWS + 1)
                asked = next(name for name in order if name in nodes.names)
                killed = owner(nodes, asked, "in") if part == 1 else asked
                nodes.kill(killed)
                more = numbers(part * ROWS, ROWS)
                client.stream("in", create=False).send_many(more, producer=killed, sequence=1)
            rows = spark.range(3 * ROWS, 4 * ROWS).selectExpr("cast(id as string) as value")
            rows.write.format("leveret").options(**server, exchange="both").mode("append").save()
            wait_for(4 * ROWS)
            wait_until(lambda: len(appended(copy, [0, 0])) >= 4 * ROWS)  # it may be in another shard than the sinks
            query.stop()
            assert sorted(map(int, appended(copy, [0, 0]))) == list(range(4 * ROWS))
            # Now, while they wait: a segment in which nothing lives may be removed before it is archived.
            events = archived_events(spark, store_url, server["url"], tmp_path / "archive")
            assert Counter(row["queue"] for row in events if row["event"] == "published") == {"out": 4 * ROWS}
            assert received(out) == list(range(4 * ROWS))
    finally:
        query.stop()


def test_what_is_reserved_for_a_query_stays_so_when_the_owner_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")
    with leveret.connect(url_of(nodes, "b")) as client:
        client.queue("jobs").send_many(numbers(0, 10))
    lost = owner(nodes, "b", "jobs")
    url = url_of(nodes, *sorted(nodes.names, key=lost.__eq__))
    options = {"url": url, "queue": "jobs", "maxrecordspertrigger": "4", "lease": "300s"}
    reader = LeveretSource(options).streamReader(StructType())
    assert isinstance(reader, ReservationReader)
    try:
        start = reader.initialOffset()
        first = reader.latestOffset(start, reader.getDefaultReadLimit())
        assert values(reader, reader.partitions(start, first)) == "0123"
        nodes.kill(lost)
        assert values(reader, reader.partitions(start, first)) == "0123"
        second = reader.latestOffset(first, reader.getDefaultReadLimit())
        assert values(reader, reader.partitions(first, second)) == "4567"
    finally:
        reader.stop()
        Origin(url).server.close()
    with leveret.connect(url) as client:
        jobs = client.queue("jobs", create=False).stats()
        assert (jobs.ready, jobs.leased, jobs.acked) == (2, 4, 4)
