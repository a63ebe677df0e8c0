"""What tests of whole nodes need: an etcd and a PostgreSQL, which the tests of one process share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.etcd_process import EtcdProcess
from tests.node.processes import Nodes


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """A running etcd."""
    with EtcdProcess(tmp_path_factory.mktemp("etcd")) as process:
        yield process


@pytest.fixture
def nodes(tmp_path: Path, etcd: EtcdProcess, store_url: str) -> Iterator[Nodes]:
    """A cluster of server processes, none of which runs yet."""
    with Nodes(tmp_path, etcd.url, store_url) as made:
        yield made
