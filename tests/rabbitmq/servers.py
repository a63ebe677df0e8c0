"""Servers of Leveret that start with the same definitions as the RabbitMQ that they are compared with."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from leveret.core.broker import Broker
from leveret.operations.context import OperationContext
from leveret.operations.definitions import take_in
from tests.cluster.cluster import SHARDS, Cluster
from tests.rabbitmq.definitions import definitions
from tests.rabbitmq.transcripts import Address
from tests.server_process import ServerProcess

VHOSTS = [f"v{number}" for number in range(12)]  # so many scenarios are played at once: most of the time is waiting
FRONT_VHOSTS = [f"v{number}" for number in range(30)]


@contextmanager
def running(directory: Path) -> Iterator[list[Address]]:
    """A started server: its host and port with each of its virtual hosts."""
    wanted = directory / "definitions.json"
    wanted.write_text(json.dumps(definitions(VHOSTS)))
    server = ServerProcess(directory)
    server.data.mkdir()
    command = [sys.executable, "-m", "leveret", "definitions", "import", str(wanted), "--data", str(server.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "skipped " not in done.stdout.partition("bindings")[2], done.stdout
    with server:
        yield [("127.0.0.1", server.port, vhost) for vhost in VHOSTS]


@contextmanager
def front_of_another() -> Iterator[list[Address]]:
    """Two nodes, of which one has all shards and clients come to the other: its address with each virtual host."""
    cluster = Cluster("a", "b")
    try:
        for home in map(str, range(SHARDS)):
            if cluster.owners[home] == "a":
                cluster.move(home, "b")
        member = cluster.members["a"]
        context = OperationContext(member.proxies.broker.runtime.core, member.proxies.access)
        for section, rows in definitions(FRONT_VHOSTS).items():
            if section != "users":  # it has the guest
                done = cluster.run(member.node.decide(partial(_take_in, context, section, rows)))
                assert not done["skipped"]
        yield [("127.0.0.1", member.port, vhost) for vhost in FRONT_VHOSTS]
    finally:
        cluster.close()


def _take_in(context: OperationContext, section: str, rows: list[Any], core: Broker) -> dict[str, Any]:
    """Add definitions; `core` is that of the site."""
    return take_in(context, section, rows)
