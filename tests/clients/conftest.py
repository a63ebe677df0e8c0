"""What the tests with other people's clients share: a broker process and names of their own.

`BROKER=host:port` runs the tests against a broker that is already there, RabbitMQ for example: what they ask for is
RabbitMQ's behaviour, so they should pass there too.
"""

import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import pytest

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


@pytest.fixture(scope="session")
def broker() -> Broker:
    """A broker process for all of these tests: names keep them apart."""
    host, _, port = os.environ["BROKER"].rpartition(":")
    return Broker(host, int(port))


@pytest.fixture
def unique() -> Unique:
    """Names that no other test uses."""
    suffix = uuid.uuid4().hex[:8]
    return lambda name: f"{name}-{suffix}"
