"""What tests of nodes need: one without its surroundings, two in this process, or several processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.cluster.forwarding.forwarder import Forwarder
from tests.cluster.cluster import Cluster
from tests.cluster.coordination.etcd_process import EtcdProcess
from tests.cluster.processes import Nodes
from tests.cluster.proxy_world import FrontWorld
from tests.cluster.takeover_world import TakeoverWorld
from tests.waiting import PATIENCE_S

LIMITS = (
    "leveret.cluster.forwarding.dispatcher.ASKED_S",
    "leveret.cluster.operations.WAIT_S",
    "leveret.cluster.node.ASKED_S",
    "leveret.cluster.forwarding.forwarder.PATIENCE_S",
    "leveret.cluster.forwarding.logins.NOTED_S",
    "leveret.cluster.forwarding.dispatcher.WAIT_S",
)
"""For how long a node waits for others before it answers without them."""


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nodes of this process wait for each other as long as tests do: it may stand still for seconds."""
    for name in LIMITS:
        monkeypatch.setattr(name, PATIENCE_S)
    monkeypatch.setattr(Forwarder.everywhere, "__defaults__", (PATIENCE_S,))


@pytest.fixture
def world() -> Iterator[FrontWorld]:
    """The front of a node, with shards in memory behind it."""
    made = FrontWorld()
    yield made
    made.close()


@pytest.fixture
def takeover(tmp_path: Path) -> Iterator[TakeoverWorld]:
    """The front of a node, and a shard that gets other owners."""
    made = TakeoverWorld(tmp_path)
    yield made
    made.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two nodes in this process."""
    made = Cluster("a", "b")
    yield made
    made.close()


@pytest.fixture
def nodes(tmp_path: Path, etcd: EtcdProcess, store_url: str) -> Iterator[Nodes]:
    """A cluster of server processes, none of which runs yet."""
    with Nodes(tmp_path, etcd.url, store_url) as made:
        yield made
