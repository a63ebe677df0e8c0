"""What a client settled before it left: its shards have it, whoever is killed then."""

from collections.abc import Callable

import pytest

from leveret.cluster.proxy.connection import SETTLING_MS
from leveret.cluster.proxy.orphaned_deliveries import GRACE_MS
from leveret.wire.methods import BasicAck, BasicGet, ConnectionClose, ConnectionCloseOk
from tests.cluster.takeover_world import NAME, TakeoverWorld, client_of, depth, publish, taken
from tests.protocols.amqp.client import Client


@pytest.fixture
def client(takeover: TakeoverWorld) -> Client:
    return client_of(takeover)


def close(client: Client) -> None:
    client.send(ConnectionClose(200, "bye"), 0)


def vanish(client: Client) -> None:
    client.world.hub.lost(client.connection)
    client.world.work()


def test_a_client_that_closes_its_connection_is_told_so_when_its_acknowledgements_are_safe(
    takeover: TakeoverWorld, client: Client
) -> None:
    publish(client, b"one", b"two")
    leaving = takeover.client()
    leaving.send(BasicGet(NAME))
    leaving.send(BasicGet(NAME))
    tags = taken(leaving)
    takeover.freeze()
    leaving.send(BasicAck(tags[b"one"]))
    close(leaving)
    assert leaving.nothing()
    takeover.take_over()
    leaving.next(ConnectionCloseOk)
    takeover.pass_ms(GRACE_MS)
    assert depth(client) == 1


@pytest.mark.parametrize("leave", [close, vanish])
def test_what_a_client_settles_before_it_leaves_is_written_at_once(
    takeover: TakeoverWorld, client: Client, leave: Callable[[Client], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(client, b"one")
    client.send(BasicGet(NAME))
    tags = taken(client)
    takeover.disk.slow = True
    kicks: list[bool] = []
    monkeypatch.setattr(takeover.disk.broker.runtime, "kick", lambda: kicks.append(True))
    client.send(BasicAck(tags[b"one"]))
    assert not kicks
    leave(client)
    assert kicks
    takeover.disk.slow = False


def test_a_client_that_leaves_does_not_wait_for_ever(takeover: TakeoverWorld, client: Client) -> None:
    publish(client, b"one")
    client.send(BasicGet(NAME))
    tags = taken(client)
    takeover.freeze()
    client.send(BasicAck(tags[b"one"]))
    close(client)
    takeover.pass_ms(SETTLING_MS - 1)
    assert client.nothing()
    takeover.pass_ms(1)
    client.next(ConnectionCloseOk)
