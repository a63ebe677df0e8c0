"""Real nodes on a real PostgreSQL: the owner of a sink is killed while a batch is published."""

import threading
from collections import Counter
from http.client import HTTPConnection
from typing import Any

from tests.cluster.processes import Nodes
from tests.cluster.test_web_processes import BASIC, ask
from tests.ingest.batches import bodies, row_group, texts
from tests.waiting import PATIENCE_S

QUEUES = [f"q{number}" for number in range(8)]  # some in every shard
PIECES, PIECE_ROWS = 4, 2_000
ROWS = PIECES * PIECE_ROWS


def stage(nodes: Nodes, node: str) -> None:
    """Stage pieces with rows for all queues."""
    names = [QUEUES[row % len(QUEUES)].encode() for row in range(PIECE_ROWS)]
    for number in range(PIECES):
        data = row_group(bodies(number * PIECE_ROWS, PIECE_ROWS), texts("queue", names))
        connection = HTTPConnection("127.0.0.1", nodes.http_port(node), timeout=PATIENCE_S)
        headers = {"Authorization": BASIC, "Connection": "close"}
        connection.request("PUT", f"/sinks/s/parts/p/{number}", data, headers)
        assert connection.getresponse().status == 201
        connection.close()


def test_a_batch_goes_on_when_the_owner_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")  # the first one has all shards for a while
    for name in QUEUES:
        ask(nodes, "b", f"PUT /queues/{name}", {})
    stage(nodes, "b")
    order = {"parts": [{"part": "p", "pieces": PIECES}], "rows": ROWS}
    answers: list[Any] = []

    def commit() -> None:
        while not answers or answers[-1]["state"] != "published":
            answers.append(ask(nodes, "b", "POST /sinks/s/batches/0", order))

    committing = threading.Thread(target=commit)
    committing.start()
    while not any(batch["done"] for row in ask(nodes, "b", "GET /sinks")["sinks"] for batch in row["batches"]):
        pass
    nodes.kill("a")
    committing.join(PATIENCE_S)
    assert answers[-1]["dropped"] == 0
    found: Counter[bytes] = Counter()
    with nodes.connect("b") as connection:
        channel = connection.channel()
        for name in QUEUES:
            channel.basic_consume(name, lambda *delivered: found.update([delivered[-1]]), auto_ack=True)
        while sum(found.values()) < ROWS:
            connection.process_data_events(1)
        connection.process_data_events(1)
    assert found == Counter(bodies(0, ROWS))
