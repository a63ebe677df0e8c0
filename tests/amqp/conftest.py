"""What the tests of the wire get: the broker to talk to.

RabbitMQ is talked to as well when LEVERET_TEST_RABBITMQ names it, as HOST:PORT: so the tables were checked.
"""

import os
from collections.abc import Iterator

import pytest

from tests.amqp.targets import SocketTarget, Target

RABBITMQ = os.environ.get("LEVERET_TEST_RABBITMQ")
TARGETS = ["rabbitmq"] if RABBITMQ else []


@pytest.fixture
def rabbitmq() -> SocketTarget:
    assert RABBITMQ is not None
    host, port = RABBITMQ.rsplit(":", 1)
    return SocketTarget(host, int(port), older=True)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """Each broker in turn."""
    found: Target = request.getfixturevalue(request.param)
    yield found
    found.clear()
