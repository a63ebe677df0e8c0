"""Rows of a batch to nodes, as one task of Spark writes them: to a queue in the shard of the sink, and to another one.

The time is that from the first piece until every row is in its queue. Rows for another shard go through the outbox.
"""

import itertools
import json
import time

from bench.cluster_http import operate, pids
from bench.measure import cpu_seconds, progress, report
from leveret.client.broker import RemoteBroker, connect
from leveret.client.sinks import commit_batch, put_piece
from leveret.cluster.coordination.placement import SHARDS, Placements, stable_hash
from leveret.ingest.row_groups import constant
from tests.cluster.processes import Nodes
from tests.ingest.batches import row_group

BODY = b"x" * 100
PIECE_ROWS = 8_000
USER = "guest"
ARRIVED_S_MAX = 120.0
POLL_S = 0.02


def measure_sink(nodes: Nodes, rows: int) -> None:
    """Write a batch of rows to each kind of queue."""
    node = nodes.names[0]
    token = json.loads(operate(nodes, node, "tokens", "add", USER, "*:*", "--json"))["token"]
    with connect(f"http://127.0.0.1:{nodes.http_port(node)}", token=token) as broker:
        for same in (True, False):
            place = "the sink's" if same else "another"
            progress(f"sink: to a queue in {place} shard")
            sink = f"bench-{same}"
            queue = queue_for(sink, same)
            broker.queue(queue)
            before, start = cpu_seconds(pids(nodes)), time.monotonic()
            write(broker, sink, queue, rows)
            seconds = time.monotonic() - start
            cpu_us = (cpu_seconds(pids(nodes)) - before) / rows * 1e6
            figures = {"rows_per_s": round(rows / seconds), "cpu_us_per_row": round(cpu_us, 1)}
            report("cluster_sink", shard=place, rows=rows, body_bytes=len(BODY), **figures)


def queue_for(sink: str, same: bool) -> str:
    """A queue in the shard of a sink, or in another one."""
    home = stable_hash("sink", "/", USER, sink) % SHARDS
    names = (f"{sink}-{number}" for number in itertools.count())
    return next(name for name in names if (Placements(SHARDS).choose("/", name, None) == home) is same)


def write(broker: RemoteBroker, sink: str, queue: str, rows: int) -> None:
    """Stage a batch, commit it, and wait until all of it is there."""
    pieces = rows // PIECE_ROWS
    data = row_group([BODY] * PIECE_ROWS, constant("queue", queue))
    for number in range(pieces):
        broker.run(put_piece(sink, "p", number, data))
    order = commit_batch(sink, 0, [("p", pieces)], pieces * PIECE_ROWS)
    while not broker.run(order).published:
        continue
    deadline = time.monotonic() + ARRIVED_S_MAX
    while broker.queue(queue).stats().ready < pieces * PIECE_ROWS:
        assert time.monotonic() < deadline, f"rows are still missing after {ARRIVED_S_MAX} s"
        time.sleep(POLL_S)
