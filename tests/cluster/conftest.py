"""An etcd that the tests of one process share, each under a prefix of its own."""

import itertools
from collections.abc import Iterator

import pytest

from tests.cluster.etcd_process import EtcdProcess

_numbers = itertools.count()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdProcess]:
    """A running etcd."""
    with EtcdProcess(tmp_path_factory.mktemp("etcd")) as process:
        yield process


@pytest.fixture
def prefix() -> str:
    """Where a test may write."""
    return f"/test/{next(_numbers)}/"
