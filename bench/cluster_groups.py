"""Shards in one PostgreSQL and in two, on one node and on two: what comes through, and who has the CPU meanwhile.

There are two shards with a queue in each, which has a producer and a consumer at the node that owns it. In two groups
the second shard is in a database of its own: another server on the same cores and the same disk. So this says what a
second group costs, not what it brings on a machine of its own.
"""

import resource
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from bench.amqp.brokers import Target, greeting
from bench.amqp.load import Options, run_load
from bench.amqp.processes import tree
from bench.cluster_http import pids
from bench.measure import cpu_seconds, cpu_seconds_of_ended, progress, report
from leveret.cluster.coordination.placement import Placements, assignment
from leveret.config import ServerOptions
from leveret.wire import methods as m
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import Nodes
from tests.postgres_server import PostgresServer
from tests.protocols.amqp.wire import Client, SocketLink

SHARDS = 2
BODY_BYTES = 200
WINDOW = 1_000
SETTLE_S_MAX = 120.0
POLL_S = 0.2


def measure_groups(settings: dict[str, str], interval: Options, folder: str | None) -> None:
    """One node and two, each with one group and then with two."""
    for names in (("a",), ("a", "b")):
        with ExitStack() as stack:
            path = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            databases = [stack.enter_context(PostgresServer(**settings)) for _ in range(SHARDS)]
            etcd = stack.enter_context(EtcdProcess(path))
            store, lease_s = databases[0].new_url("groups"), ServerOptions().cluster_lease_s
            nodes = stack.enter_context(Nodes(path, etcd.url, store, SHARDS, lease_s))
            nodes.start(*names)
            for group_count in range(1, SHARDS + 1):
                if group_count > 1:
                    second = databases[1].new_url("groups")
                    nodes.operate("a", "cluster.add-shard-group", url=second, shards=1)
                owners = settled(nodes, group_count)
                progress(f"{len(names)} nodes, {group_count} groups")
                measure(nodes, owners, databases, group_count, interval)


def settled(nodes: Nodes, group_count: int) -> dict[int, str]:
    """Wait until every shard is where it should be; give the node of each."""
    wanted = assignment(SHARDS, nodes.names)
    deadline = time.monotonic() + SETTLE_S_MAX
    while True:
        rows: list[dict[str, Any]] = nodes.operate("a", "cluster.status")["shards"]
        owners = {row["shard"]: row["owner"] for row in rows if row["state"] == "active"}
        if owners == wanted and len({row["group"] for row in rows}) == group_count:
            return owners
        assert time.monotonic() < deadline, f"shards still move after {SETTLE_S_MAX} s"
        time.sleep(POLL_S)


def measure(
    nodes: Nodes, owners: dict[int, str], databases: list[PostgresServer], group_count: int, interval: Options
) -> None:
    """A load on both queues at once."""
    loads = [(queue, owners[shard]) for shard, queue in queue_of_each().items()]
    for queue, name in loads:
        with Client(SocketLink("127.0.0.1", nodes.port(name))).open() as client:
            client.call(1, m.QueueDeclare(queue, durable=True))
            client.leave()

    def loaded(load: tuple[str, str]) -> float:
        queue, name = load
        port = nodes.port(name)
        target = Target("127.0.0.1", port, greeting("127.0.0.1", port))
        result = run_load(target, {"queue": queue, "body": BODY_BYTES, "window": WINDOW, **interval})
        return float(result["messages_per_s"])

    before, began_s = used_s(nodes, databases), time.monotonic()
    with ThreadPoolExecutor(len(loads)) as threads:
        rates = list(threads.map(loaded, loads))
    seconds, after = time.monotonic() - began_s, used_s(nodes, databases)
    report(
        "cluster_groups",
        nodes=len(nodes.names),
        groups=group_count,
        body_bytes=BODY_BYTES,
        messages_per_s=round(sum(rates)),
        each_per_s=[round(rate) for rate in rates],
        cores={who: round((after[who] - before[who]) / seconds, 2) for who in after},
    )


def queue_of_each() -> dict[int, str]:
    """The name of a queue for each shard."""
    placements = Placements(SHARDS)
    names = {placements.choose("/", name, None): name for name in map("traffic-{}".format, range(64))}
    assert len(names) == SHARDS, names
    return dict(sorted(names.items()))


def used_s(nodes: Nodes, databases: list[PostgresServer]) -> dict[str, float]:
    """How much of the CPU nodes, databases and clients have used; a client counts when it has ended."""
    clients = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "nodes": cpu_seconds(pids(nodes)),
        "databases": sum(map(server_s, databases)),
        "clients": clients.ru_utime + clients.ru_stime,
    }


def server_s(database: PostgresServer) -> float:
    """The same of one PostgreSQL, whose processes come and go."""
    while True:
        with suppress(FileNotFoundError):  # one has just ended
            return cpu_seconds(tree(database.pid)) + cpu_seconds_of_ended(database.pid)
