"""What the tests with other people's clients share: a broker process and names of their own.

`BROKER=host:port` runs the tests against a broker that is already there, RabbitMQ for example: what they ask for is
RabbitMQ's behaviour, so they should pass there too.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.server_process import ServerProcess

Unique = Callable[[str], str]


@dataclass(frozen=True)
class Broker:
    """Where a broker listens."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """The address as clients take it, with the user of a new broker."""
        return f"amqp://guest:guest@{self.host}:{self.port}/"


@contextmanager
def running(folder: Path) -> Iterator[Broker]:
    """The broker that BROKER names; otherwise one that is started for this block, with its data in a folder."""
    if address := os.environ.get("BROKER"):
        host, _, port = address.rpartition(":")
        yield Broker(host, int(port))
    else:
        with ServerProcess(folder) as server:
            yield Broker("127.0.0.1", server.port)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker process for all of these tests: names keep them apart."""
    with running(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def unique() -> Unique:
    """Names that no other test uses."""
    suffix = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{suffix}"
