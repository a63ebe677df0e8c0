from collections.abc import Iterator

import pytest

from tests.sqs.world import World


@pytest.fixture
def world() -> Iterator[World]:
    """The service without signatures."""
    made = World()
    yield made
    made.end()
