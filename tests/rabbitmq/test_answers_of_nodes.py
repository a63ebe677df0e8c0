"""The same scenarios through a node whose queues are all on another one: what clients see is one broker."""

import pytest

from tests.rabbitmq import servers
from tests.rabbitmq.differences import answered, expected
from tests.rabbitmq.transcripts import scripts

COUNTED_BY_SHARD = "channels: shared prefetch"
"""A prefetch of a whole channel is one of each shard that the channel consumes from."""


@pytest.mark.timeout(600)
def test_a_node_answers_as_a_single_server_does() -> None:
    compared = [name for name in scripts() if not name.startswith(COUNTED_BY_SHARD)]
    with servers.front_of_another() as addresses:
        said = answered(addresses, compared)
    assert {name: lines for name, lines in said.items() if lines != expected(name)} == {}
