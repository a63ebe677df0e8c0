"""A PostgreSQL, an etcd, a Redis and some nodes on this machine, for as long as a block lasts."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.coordination.etcd_process import EtcdProcess, free_ports
from tests.cluster.processes import Nodes
from tests.parts import DEBIAN_PACKAGES, program
from tests.postgres_server import USER, PostgresServer
from tests.redis_process import RedisProcess

NAMES = ("a", "b", "c")
SHARDS, LEASE_S = 32, 4  # as nodes have them unless they are told otherwise
SETTLED_S = 60.0
HOST, CLUSTER = "127.0.0.1", "shop"
FLAGS = ("--cluster", CLUSTER)


@contextmanager
def running() -> Iterator[Nodes]:
    """Start everything, let shards spread over all nodes, and stop everything at the end."""
    missing = [DEBIAN_PACKAGES[name] for name in ("initdb", "etcd", "redis-server") if not program(name)]
    if missing:
        raise SystemExit(f"some programs are needed: run `make parts` as root, or install {', '.join(missing)}")
    (port,) = free_ports(1)
    with (
        tempfile.TemporaryDirectory(prefix="leveret-cluster-") as folder,
        PostgresServer(fsync="on", listen_addresses=HOST, port=str(port)) as postgres,
        EtcdProcess(Path(folder)) as etcd,
        RedisProcess(Path(folder)) as redis,
        Nodes(Path(folder), etcd.url, database(postgres, port), SHARDS, LEASE_S, *FLAGS, "--redis", redis.url) as nodes,
    ):
        nodes.start(*NAMES)
        spread(nodes)
        yield nodes
        for name in nodes.names:
            nodes.stop(name)


def database(postgres: PostgresServer, port: int) -> str:
    """A new database, and where nodes reach it."""
    postgres.sql(f"create database {CLUSTER}")
    return f"postgresql://{USER}@{HOST}:{port}/{CLUSTER}"


def spread(nodes: Nodes) -> None:
    """Wait until every node has its shards."""
    deadline = time.monotonic() + SETTLED_S
    nodes.operate(NAMES[0], "cluster.rebalance")
    while not is_spread(nodes.operate(NAMES[0], "cluster.status")):
        if time.monotonic() > deadline:
            raise SystemExit("the shards do not settle: see the logs of the nodes")
        time.sleep(0.1)


def is_spread(told: dict[str, Any]) -> bool:
    """Whether all shards are served, and no node has many more than another."""
    owned = [member["shards"] for member in told["members"]]
    active = all(row["state"] == "active" for row in told["shards"])
    return active and len(owned) == len(NAMES) and min(owned) >= SHARDS // len(NAMES)
