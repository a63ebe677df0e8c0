"""Messages that never end: what is gathered of them is bounded for a connection, not only for a channel."""

import struct
from collections.abc import Iterator

import pytest

from leveret.core.properties import Properties, encode_header
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.state import ConnectionState
from leveret.wire.codec import encode
from leveret.wire.methods import BasicPublish, ConnectionClose
from tests.protocols.amqp.client import Client, World

SIZE = 100_000
PIECE = 90_000


@pytest.fixture
def world() -> Iterator[World]:
    world = World(AmqpLimits(message_bytes_max=SIZE))
    yield world
    world.close()


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce"


def begin(client: Client, channel: int) -> None:
    """Send most of a message."""
    client.open_channel(channel)
    client.send_bytes(
        frame(1, channel, encode(BasicPublish("", "q")))
        + frame(2, channel, encode_header(Properties(), SIZE))
        + frame(3, channel, b"x" * PIECE)
    )


def test_unfinished_messages_of_all_channels_have_one_limit(world: World) -> None:
    client = world.client()
    for channel in range(2, 6):
        begin(client, channel)
        assert client.nothing()
    begin(client, 6)
    close = client.next(ConnectionClose)
    assert close.reply_code == 506
    assert close.reply_text.startswith("RESOURCE_ERROR - 450")


def test_messages_that_were_finished_do_not_count(world: World) -> None:
    client = world.client()
    client.queue("q")
    for channel in range(2, 30):
        begin(client, channel)
        client.send_bytes(frame(3, channel, b"x" * (SIZE - PIECE)))
    assert client.nothing()
    assert client.queue("q", passive=True) == "q"
    assert world.core.topology.vhost("/").queue("q").depth == 28


def test_headers_without_a_body_have_the_same_limit(world: World) -> None:
    client = world.client()
    header = encode_header(Properties(headers={"x": "y" * PIECE}), SIZE)
    for channel in range(2, 7):
        client.open_channel(channel)
        client.send_bytes(frame(1, channel, encode(BasicPublish("", "q"))) + frame(2, channel, header))
        assert client.nothing()
    client.open_channel(7)
    assert client.connection.state is ConnectionState.CLOSING
