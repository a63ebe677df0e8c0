"""AMQP connections whose password is a token: its renewal and its end, by a clock that stands still.

Each test runs on a broker, and on a node whose clients talk to shards through a front.
"""

from collections.abc import Callable, Iterator

import pytest

from leveret.cluster.proxy.proxied import EXPIRED_MS
from leveret.security.authentication import AuthenticatedLogin, Authentication, Credentials, Internal
from leveret.security.identity import Identity
from leveret.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ChannelClose,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from leveret.wire.replies import Reply
from tests.cluster.proxy_world import FrontWorld
from tests.protocols.amqp.client import Client, World

LIFETIME_MS = 60_000
READ, WRITE, CONFIGURE = "@read:*/*/*", "@write:*/*/*", "@configure:*/*"
ALL = (READ, WRITE, CONFIGURE)


class Tokens:
    """A backend that knows some tokens."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[bytes, Identity] = {}
        self.asked = 0
        world.hub.authentication = Authentication(world.access, [self, Internal(world.access)])

    def make(self, name: str, scopes: tuple[str, ...] = ALL, user: str = "ada", *, local: bool = False) -> bytes:
        """A token that is good for a minute."""
        expires_ms = self._world.clock.now_ms() + LIFETIME_MS
        self._known[name.encode()] = Identity(user, frozenset(), scopes, local, expires_ms)
        return name.encode()

    def recall(self, given: Credentials, peer: str, now_ms: int) -> Identity | None:
        return None

    def authenticate(self, given: Credentials, peer: str, now_ms: int) -> AuthenticatedLogin:
        self.asked += 1
        found = self._known.get(given.password)
        return (
            AuthenticatedLogin(None, "unknown")
            if found is None or found.has_expired(now_ms)
            else AuthenticatedLogin(found)
        )


@pytest.fixture(params=[World, FrontWorld])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made: World = request.param()
    yield made
    made.close()


@pytest.fixture
def tokens(world: World) -> Tokens:
    return Tokens(world)


@pytest.fixture
def client(world: World, tokens: Tokens) -> Client:
    made = world.client(user="whatever", password=tokens.make("first").decode())
    made.queue("q")
    return made


def update(client: Client, token: bytes) -> None:
    client.send(ConnectionUpdateSecret(token, "renewed"), 0)


def renew(client: Client, token: bytes) -> None:
    update(client, token)
    client.next(ConnectionUpdateSecretOk, 0)


def consume(client: Client, prefetch: int = 0) -> None:
    client.call(BasicQos(0, prefetch), BasicQosOk)
    client.call(BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk)


def test_the_user_is_the_one_of_the_token(client: Client) -> None:
    assert client.connection.user_name == "ada"
    client.publish("q", b"one", user_id="ada")
    consume(client)
    assert client.next_content(BasicDeliver).body == b"one"


def test_a_connection_ends_with_its_token(world: World, client: Client) -> None:
    world.pass_ms(LIFETIME_MS - 1)
    assert client.nothing()
    world.pass_ms(1)
    closed = client.next(ConnectionClose, 0)
    assert (closed.reply_code, closed.reply_text) == (Reply.CONNECTION_FORCED, "CONNECTION_FORCED - credential expired")


def test_what_comes_after_the_end_of_a_token_is_not_done(world: World, client: Client) -> None:
    world.clock.advance(LIFETIME_MS / 1000)
    client.publish("q", b"late")
    client.next(ConnectionClose, 0)
    other = world.client()
    consume(other)
    assert other.nothing()


def test_consumers_go_on_with_a_new_token(world: World, tokens: Tokens, client: Client) -> None:
    consume(client)
    for number in range(3):
        world.pass_ms(LIFETIME_MS - 1_000)
        renew(client, tokens.make(f"token-{number}"))
        client.publish("q", b"%d" % number)
        assert client.next_content(BasicDeliver).body == b"%d" % number
    world.pass_ms(LIFETIME_MS + EXPIRED_MS)
    client.next(ConnectionClose, 0)


def test_routes_that_a_new_token_does_not_allow_are_forgotten(tokens: Tokens, client: Client) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("q", b"one")
    client.received()
    renew(client, tokens.make("less", (READ,)))
    client.publish("q", b"two")
    refused = client.next(ChannelClose)
    assert refused.reply_code == Reply.ACCESS_REFUSED
    assert "write access to exchange 'amq.default' in vhost '/' refused for user 'ada'" in refused.reply_text


def test_a_consumer_that_a_new_token_does_not_allow_ends(tokens: Tokens, client: Client) -> None:
    consume(client)
    update(client, tokens.make("less", (WRITE,)))
    came = [each.method for each in client.received()]
    assert [each for each in came if not isinstance(each, ConnectionUpdateSecretOk)] == [BasicCancel("c", nowait=True)]
    assert any(isinstance(each, ConnectionUpdateSecretOk) for each in came)
    client.publish("q", b"late")
    assert client.nothing()


@pytest.mark.parametrize("wrong", ["unknown", "expired", "of another user", "of a stored user", "for another vhost"])
def test_a_token_that_is_refused_ends_the_connection(world: World, tokens: Tokens, client: Client, wrong: str) -> None:
    made: dict[str, Callable[[], bytes]] = {
        "unknown": lambda: b"made up",
        "expired": lambda: b"expired",
        "of another user": lambda: tokens.make("eve", user="eve"),
        "of a stored user": lambda: tokens.make("stored", local=True),
        "for another vhost": lambda: tokens.make("elsewhere", ("@read:elsewhere/*",)),
    }
    tokens.make("expired")
    world.clock.advance(LIFETIME_MS / 1000 - 1)
    renew(client, tokens.make("second"))
    world.clock.advance(2)
    update(client, made[wrong]())
    closed = client.next(ConnectionClose, 0)
    told = "New secret was refused by one of the backends"
    if wrong == "for another vhost":
        told = "access to vhost '/' refused for user 'ada'"
    assert (closed.reply_code, closed.class_id, closed.method_id) == (Reply.NOT_ALLOWED, 10, 70)
    assert told in closed.reply_text


def test_who_came_with_a_password_has_nothing_to_renew(world: World, tokens: Tokens) -> None:
    client = world.client()
    asked = tokens.asked
    renew(client, b"anything")
    world.pass_ms(10 * LIFETIME_MS)
    assert tokens.asked == asked
    assert client.nothing()


def test_a_client_that_has_gone_gets_no_new_token(world: World, tokens: Tokens, client: Client) -> None:
    client.writer.method(0, b"\0\x0a\0\x46\0\0\0\5later\1x")  # update-secret
    tokens.make("later")
    world.hub.receive(client.connection, client.writer.take())
    world.hub.lost(client.connection)
    world.work()
    assert client.connection.finished


def test_a_shard_that_gets_another_owner_hears_of_the_new_token() -> None:
    world = FrontWorld()
    tokens = Tokens(world)
    client = world.client(user="x", password=tokens.make("first").decode())
    client.queue("q")
    consume(client)
    world.pass_ms(LIFETIME_MS - 1_000)
    renew(client, tokens.make("second"))
    assert {caller.identity.expires_ms for caller in world.callers.values()} == {world.clock.now_ms() + LIFETIME_MS}
    for guest in list(world.proxied_clients.values()):
        guest.abort()
    world.reattach()
    world.pass_ms(2_000)
    client.publish("q", b"one")
    assert client.next_content(BasicDeliver).body == b"one"
    world.close()
