"""Three nodes on one PostgreSQL and one etcd: clients at the owner of their queue, and at another node; kills.

A gap is the time from the SIGKILL of the owner until a client of another node has a message confirmed. A node is
killed only when all three are there; the lease is the one that nodes have by default.
"""

import random
import statistics
import time
from pathlib import Path

from bench.amqp.brokers import Target, greeting
from bench.amqp.cases import latencies, rates
from bench.amqp.load import Options, run_load
from bench.cluster_http import REST_QUEUE, SQS_QUEUE, measure_rest, measure_sqs, pids
from bench.cluster_sink import measure_sink
from bench.cluster_streams import STREAMS, measure_streams
from bench.measure import progress, report
from leveret.cluster.coordination.placement import SHARDS, Placements, assignment
from leveret.config import ServerOptions
from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import Nodes
from tests.postgres_server import PostgresServer
from tests.protocols.amqp.wire import Client, SocketLink

NAMES = ("a", "b", "c")
SCHEMA = "nodes"
QUEUE = "traffic"
BODY_BYTES = 200
LOADS: dict[str, Options] = {
    "window 1,000": {"window": 1_000},
    "1,000 messages/s": {"rate": 1_000},
}
RECORDS_PER_REQUEST = 50  # of streams, for each request of SQS
ROWS_PER_REQUEST = 8  # of sinks
RETRY_S = 0.01
GAP_S_MAX = 60.0
SETTLE_S_MAX = 120.0
POLL_S = 0.2
GOAL_GAP_S = 5.0


def measure_nodes(primary: PostgresServer, folder: Path, interval: Options, kills: int, requests: int) -> None:
    """Start the nodes, load them, kill them."""
    store = primary.new_url(SCHEMA)
    lease_s = ServerOptions().cluster_lease_s
    with EtcdProcess(folder) as etcd, Nodes(folder, etcd.url, store, SHARDS, lease_s) as nodes:
        nodes.start(*NAMES)
        settle(primary)
        with connect(nodes, NAMES[0]) as client:
            for queue in (QUEUE, REST_QUEUE):
                client.call(1, m.QueueDeclare(queue, durable=True))
            client.leave()
        for name, load in LOADS.items():
            measure_paths(primary, nodes, {**interval, **load}, name)
        progress("SQS and REST")
        measure_sqs(nodes, paths_to(primary, SQS_QUEUE), requests)
        measure_rest(nodes, paths_to(primary, REST_QUEUE), requests)
        to_streams = {path: paths_to(primary, stream)[path] for path, stream in STREAMS.items()}
        measure_streams(nodes, to_streams, RECORDS_PER_REQUEST * requests)
        measure_sink(nodes, ROWS_PER_REQUEST * requests)
        gaps = sorted(gap(primary, nodes, number) for number in range(1, kills + 1))
    report(
        "cluster_failover",
        kills=kills,
        lease_s=lease_s,
        gap_p50_s=round(statistics.median(gaps), 2),
        gap_max_s=round(gaps[-1], 2),
        gaps_s=[round(each, 2) for each in gaps],
        goal_p50_s=GOAL_GAP_S,
    )


def connect(nodes: Nodes, name: str) -> Client:
    """A client of a node, which waits for as long as a gap may last."""
    link = SocketLink("127.0.0.1", nodes.port(name))
    link.socket.settimeout(GAP_S_MAX)
    return Client(link).open()


def settle(primary: PostgresServer) -> None:
    """Wait until every shard is where it should be: what moves under a load is refused and to be sent again."""
    wanted = assignment(SHARDS, NAMES)
    deadline = time.monotonic() + SETTLE_S_MAX
    while sorted(primary.sql(f"select id, owner from {SCHEMA}.leveret_shard")) != sorted(wanted.items()):
        assert time.monotonic() < deadline, f"shards still move after {SETTLE_S_MAX} s"
        time.sleep(POLL_S)


def owner(primary: PostgresServer, queue: str) -> str:
    """The node that owns the shard of a queue."""
    shard = Placements(SHARDS).choose("/", queue, None)
    ((name,),) = primary.sql(f"select owner from {SCHEMA}.leveret_shard where id = {shard}")
    return str(name)


def paths_to(primary: PostgresServer, queue: str) -> dict[str, str]:
    """The node at which a queue is, and another one."""
    local = owner(primary, queue)
    return {"local": local, "proxied": next(each for each in NAMES if each != local)}


def measure_paths(primary: PostgresServer, nodes: Nodes, load: Options, name: str) -> None:
    """The same load through the owner of a queue and through another node."""
    for path, node in paths_to(primary, QUEUE).items():
        progress(f"{name}, {path}")
        port = nodes.port(node)
        target = Target("127.0.0.1", port, greeting("127.0.0.1", port), tuple(pids(nodes)))
        result = run_load(target, {"queue": QUEUE, "body": BODY_BYTES, **load})
        figures = (latencies if "rate" in load else rates)([result])
        known = {key: value for key, value in figures.items() if value is not None}
        report("cluster_nodes", path=path, load=name, body_bytes=BODY_BYTES, **known)


def gap(primary: PostgresServer, nodes: Nodes, number: int) -> float:
    """Kill the owner of the queue; give the seconds until a client of another node is served, and start it again."""
    progress(f"kill {number}")
    killed = owner(primary, QUEUE)
    other = random.choice([each for each in NAMES if each != killed])
    with connect(nodes, other) as client:
        client.call(1, m.ConfirmSelect())
        publish(client)
        nodes.kill(killed)
        start = time.monotonic()
        publish(client)
        seconds = time.monotonic() - start
        client.leave()
    nodes.start(killed)
    return seconds


def publish(client: Client) -> None:
    """Publish a message until it is confirmed."""
    deadline = time.monotonic() + GAP_S_MAX
    while time.monotonic() < deadline:
        client.publish(1, m.BasicPublish("", QUEUE), Properties(delivery_mode=2), bytes(BODY_BYTES))
        if isinstance(client.method(1), m.BasicAck):
            return
        time.sleep(RETRY_S)
    raise AssertionError(f"nothing was confirmed for {GAP_S_MAX} s")
