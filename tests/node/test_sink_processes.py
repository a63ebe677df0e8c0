"""Real nodes on a real PostgreSQL: the owner of a sink is killed while a batch is published."""

import threading
from collections import Counter
from http.client import HTTPConnection
from typing import Any

from tests.node.processes import Nodes
from tests.node.test_web_processes import BASIC, TIMEOUT_S, ask
from tests.sink.batches import piece, texts

QUEUES = [f"q{number}" for number in range(8)]  # some in every shard
ROWS = 8_000


def stage(nodes: Nodes, node: str) -> None:
    """Stage one piece with rows for all queues."""
    names = [QUEUES[row % len(QUEUES)].encode() for row in range(ROWS)]
    data = piece([b"%d" % row for row in range(ROWS)], texts("queue", names))
    connection = HTTPConnection("127.0.0.1", nodes.http_port(node), timeout=TIMEOUT_S)
    connection.request("PUT", "/sinks/s/parts/p/0", data, {"Authorization": BASIC, "Connection": "close"})
    assert connection.getresponse().status == 201
    connection.close()


def test_a_batch_goes_on_when_the_owner_is_killed(nodes: Nodes) -> None:
    nodes.start("a", "b")  # the first one has all shards for a while
    for name in QUEUES:
        ask(nodes, "b", f"PUT /queues/{name}", {})
    stage(nodes, "b")
    order = {"parts": [{"part": "p", "pieces": 1}], "rows": ROWS}
    answers: list[Any] = []

    def commit() -> None:
        while not answers or answers[-1]["state"] != "published":
            answers.append(ask(nodes, "b", "POST /sinks/s/batches/0", order))

    committing = threading.Thread(target=commit)
    committing.start()
    while not any(batch["done"] for row in ask(nodes, "b", "GET /sinks")["sinks"] for batch in row["batches"]):
        pass
    nodes.kill("a")
    committing.join(TIMEOUT_S)
    assert answers[-1]["dropped"] == 0
    found: Counter[bytes] = Counter()
    with nodes.connect("b") as connection:
        channel = connection.channel()
        for name in QUEUES:
            channel.basic_consume(name, lambda *delivered: found.update([delivered[-1]]), auto_ack=True)
        while sum(found.values()) < ROWS:
            connection.process_data_events(1)
        connection.process_data_events(1)
    assert found == Counter(b"%d" % row for row in range(ROWS))
