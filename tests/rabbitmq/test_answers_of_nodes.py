"""The same scenarios through a node whose queues are all on another one: what clients see is one broker."""

import pytest

from tests.rabbitmq import servers
from tests.rabbitmq.differences import OURS, expected, without
from tests.rabbitmq.transcripts import Transcripts, played, scripts

COUNTED_BY_SHARD = "channels: shared prefetch"
"""A prefetch of a whole channel is one of each shard that the channel consumes from."""


ATTEMPTS = 3  # the later ones alone: what a busy machine says too late is heard with the next answer


@pytest.mark.timeout(600)
def test_a_node_answers_as_a_single_server_does() -> None:
    compared = [name for name in scripts() if not name.startswith(COUNTED_BY_SHARD)]
    with servers.front_of_another() as addresses:
        differing = differences(played(addresses, compared))
        for _ in range(ATTEMPTS - 1):
            differing = differences(played(addresses[:1], differing)) if differing else {}
    assert differing == {}


def differences(said: Transcripts) -> Transcripts:
    """What is not answered as expected."""
    return {name: lines for name, lines in said.items() if without(OURS, lines) != expected(name)}
