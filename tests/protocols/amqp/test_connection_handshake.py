"""The handshake, step by step: what is offered, what is refused and how."""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from typing import TypeVar

import pytest

from leveret.core.tables import encode_table
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.security.logins import FREE_MAX
from leveret.security.passwords import hash_password
from leveret.security.users import User
from leveret.wire.codec import encode
from leveret.wire.frames import PROTOCOL_HEADER, FrameWriter
from leveret.wire.methods import (
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    Method,
)
from tests.protocols.amqp.client import CHEAP, World

T = TypeVar("T")
REFUSED = "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile."


def frame(method: Method, channel: int = 0) -> bytes:
    writer = FrameWriter()
    writer.method(channel, encode(method))
    return writer.take()


def test_the_server_introduces_itself(world: World) -> None:
    client = world.stranger()
    client.send_bytes(PROTOCOL_HEADER)
    start = client.next(ConnectionStart)
    assert (start.version_major, start.version_minor) == (0, 9)
    assert start.mechanisms == b"PLAIN AMQPLAIN"
    assert start.locales == b"en_US"
    assert start.server_properties["product"] == "Leveret"
    assert start.server_properties["capabilities"]["publisher_confirms"] is True
    assert start.server_properties["cluster_name"] == "leveret"


def test_a_whole_handshake_byte_by_byte(world: World) -> None:
    client = world.stranger()
    login = ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")
    steps = PROTOCOL_HEADER + frame(login) + frame(ConnectionTuneOk(10, 131_072, 0)) + frame(ConnectionOpen("/"))
    for i in range(len(steps)):
        client.send_bytes(steps[i : i + 1])
    kinds = [type(each.method) for each in client.received()]
    assert kinds == [ConnectionStart, ConnectionTune, ConnectionOpenOk]


def test_amqplain_logs_in(world: World) -> None:
    client = world.stranger()
    client.send_bytes(PROTOCOL_HEADER)
    response = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
    client.send(ConnectionStartOk({}, "AMQPLAIN", response, "en_US"), 0)
    client.next(ConnectionStart)
    assert client.next(ConnectionTune) == ConnectionTune(2_047, 131_072, 60)


@pytest.mark.parametrize("header", [b"AMQP\0\0\x09\0", b"AMQP\3\1\0\0", b"GET / HT", b"\x16\x03\x01\x02\0\1\0\1"])
def test_another_protocol_is_answered_with_ours(world: World, header: bytes) -> None:
    client = world.stranger()
    client.send_bytes(header)
    assert client.connection.take_output() == PROTOCOL_HEADER
    assert client.connection.finished


def test_the_first_wrong_passwords_are_refused_at_once_and_further_ones_after_a_while(world: World) -> None:
    for _ in range(FREE_MAX):
        client = world.stranger()
        client.start(password="wrong")
        client.next(ConnectionStart)
        assert client.next(ConnectionClose) == ConnectionClose(403, REFUSED)
        assert client.connection.finished
    client = world.stranger()
    client.start(password="wrong")
    client.next(ConnectionStart)
    assert client.nothing()
    assert not client.connection.finished
    assert not client.connection.wants_input
    world.pass_ms(1_000)
    assert client.next(ConnectionClose) == ConnectionClose(403, REFUSED)
    assert client.connection.finished


def test_who_cannot_take_a_close_is_told_nothing(world: World) -> None:
    client = world.stranger()
    client.start(password="wrong", capabilities={})
    client.next(ConnectionStart)
    assert client.connection.finished
    assert client.nothing()


def test_guest_comes_from_this_machine_only(world: World) -> None:
    client = world.stranger(AmqpPeer("192.0.2.7", 1, tls=True))
    client.start()
    client.next(ConnectionStart)
    assert client.next(ConnectionClose).reply_text == REFUSED


@pytest.mark.parametrize(("host", "answer"), [("192.0.2.7", ConnectionClose), ("127.0.0.1", ConnectionTune)])
def test_guest_with_a_certificate_comes_from_this_machine_only(
    world: World, host: str, answer: type[ConnectionClose | ConnectionTune]
) -> None:
    client = world.stranger(AmqpPeer(host, 1, tls=True, certificate_name="guest"))
    client.send_bytes(PROTOCOL_HEADER)
    client.next(ConnectionStart)
    properties = {"capabilities": {"authentication_failure_close": True}}
    client.send(ConnectionStartOk(properties, "EXTERNAL", b"", "en_US"), 0)
    client.next(answer)
    assert client.connection.user_name == ("guest" if answer is ConnectionTune else "")


def test_a_password_that_was_verified_a_moment_ago_is_not_put_in_line(world: World) -> None:
    world.client().connection.finish()
    client = world.stranger()
    world.jobs.append(lambda: pytest.fail("nothing was put in line"))
    client.writer.method(0, encode(ConnectionStartOk({}, "PLAIN", b"\0guest\0guest", "en_US")))
    world.hub.receive(client.connection, PROTOCOL_HEADER + client.writer.take())
    client.next(ConnectionStart)
    client.next(ConnectionTune)
    assert len(world.jobs) == 1
    world.jobs.clear()


def test_a_password_in_clear_from_another_machine_is_not_even_looked_at(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
    client = world.stranger(AmqpPeer("192.0.2.7", 1))
    client.start("ann", "secret")
    client.next(ConnectionStart)
    world.pass_ms(1)
    assert client.next(ConnectionClose).reply_code == 403
    assert "plain_auth_remote" in str(vars(caplog.records[-1]))


def test_a_certificate_names_the_user(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", "")
    client = world.stranger(AmqpPeer("192.0.2.7", 1, tls=True, certificate_name="ann"))
    client.send_bytes(PROTOCOL_HEADER)
    assert client.next(ConnectionStart).mechanisms == b"PLAIN AMQPLAIN EXTERNAL"
    client.send(ConnectionStartOk({}, "EXTERNAL", b"", "en_US"), 0)
    client.next(ConnectionTune)
    assert client.connection.user_name == "ann"


def test_external_without_a_certificate_is_unknown(world: World) -> None:
    client = world.stranger()
    client.send_bytes(PROTOCOL_HEADER)
    client.next(ConnectionStart)
    client.send(ConnectionStartOk({}, "EXTERNAL", b"guest", "en_US"), 0)
    assert client.connection.finished
    assert client.nothing()


@pytest.mark.parametrize(
    ("method", "states"),
    [(ConnectionSecureOk(b""), 0), (ConnectionOpen("/"), 0), (ConnectionCloseOk(), 0)],
)
def test_a_stranger_out_of_order_is_cut_off(world: World, method: Method, states: int) -> None:
    client = world.stranger()
    client.send_bytes(PROTOCOL_HEADER)
    client.next(ConnectionStart)
    client.send(method, states)
    assert client.connection.finished


def test_a_method_out_of_order_after_the_login_is_504(world: World) -> None:
    client = world.stranger()
    client.start()
    client.received()
    client.send(ConnectionOpen("/"), 0)
    close = client.next(ConnectionClose)
    assert close == ConnectionClose(504, "CHANNEL_ERROR - unexpected method in connection state tuning", 10, 40)
    client.send(ConnectionCloseOk(), 0)
    assert client.connection.finished


@pytest.mark.parametrize(
    ("channel_max", "frame_max", "text"),
    [
        (0, 131_072, "negotiated channel_max = 0 is higher than the maximum allowed value (2047)"),
        (2_048, 131_072, "negotiated channel_max = 2048 is higher than the maximum allowed value (2047)"),
        (2_047, 0, "negotiated frame_max = 0 is higher than the maximum allowed value (131072)"),
        (2_047, 131_073, "negotiated frame_max = 131073 is higher than the maximum allowed value (131072)"),
        (2_047, 100, "negotiated frame_max = 100 is lower than the minimum allowed value (4096)"),
    ],
)
def test_tuning_is_refused_with_530(world: World, channel_max: int, frame_max: int, text: str) -> None:
    client = world.stranger()
    client.start()
    client.received()
    client.send(ConnectionTuneOk(channel_max, frame_max, 0), 0)
    assert client.next(ConnectionClose) == ConnectionClose(530, f"NOT_ALLOWED - {text}", 10, 31)


def opened(world: World, user: str, vhost: str) -> Method:
    """What connection.open is answered with."""
    client = world.stranger()
    client.start(user, "secret" if user != "guest" else "guest")
    client.tune()
    client.received()
    client.send(ConnectionOpen(vhost), 0)
    answer: Method = client.received()[0].method
    return answer


def test_an_unknown_vhost_is_530(world: World) -> None:
    assert opened(world, "guest", "nowhere") == ConnectionClose(530, "NOT_ALLOWED - vhost nowhere not found", 10, 40)


def test_a_vhost_without_permission_is_530(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
    text = "NOT_ALLOWED - access to vhost '/' refused for user 'ann'"
    assert opened(world, "ann", "/") == ConnectionClose(530, text, 10, 40)


def test_limits_of_vhost_and_user_are_530(world: World) -> None:
    with world.broker.runtime:
        world.access.add_user("ann", hash_password("secret", CHEAP))
        world.access.set_permission("ann", "/", "", "", "")
        world.access.set_user_limits("ann", {"max-connections": 1})
    assert opened(world, "ann", "/") == ConnectionOpenOk()
    text = "NOT_ALLOWED - connection refused for user 'ann': user connection limit (1) is reached"
    assert opened(world, "ann", "/") == ConnectionClose(530, text, 10, 40)
    with world.broker.runtime:
        world.access.set_vhost_limits("/", {"max-connections": 1})
    text = "NOT_ALLOWED - access to vhost '/' refused for user 'guest': connection limit (1) is reached"
    assert opened(world, "guest", "/") == ConnectionClose(530, text, 10, 40)


def test_who_does_not_shake_hands_in_time_is_cut_off(world: World) -> None:
    client = world.stranger()
    client.send_bytes(PROTOCOL_HEADER)
    world.pass_ms(10_000)
    assert not client.connection.finished
    world.pass_ms(1)
    assert client.connection.finished


def test_a_stranger_cannot_fill_the_memory(world: World) -> None:
    client = world.stranger()
    client.start(password="wrong")
    client.send_bytes(bytes(70_000))
    assert client.connection.finished


def test_a_new_secret_is_taken_and_changes_nothing(world: World) -> None:
    client = world.client()
    client.send(ConnectionUpdateSecret(b"wrong", "renewed"), 0)
    assert client.next(ConnectionUpdateSecretOk) == ConnectionUpdateSecretOk()
    assert client.connection.user_name == "guest"


def imported_user(world: World) -> None:
    """A user whose hash is to be replaced at the next login."""
    digest = hashlib.sha256(b"salt" + b"old").digest()
    stored = {"password_hash": b64encode(b"salt" + digest).decode(), "tags": []}
    user = User.from_dict({"name": "ada", **stored, "hashing_algorithm": "rabbit_password_hashing_sha256"})
    world.access.add_user("ada", user.password_hash)


def test_a_login_makes_a_weak_hash_stronger(world: World) -> None:
    imported_user(world)
    client = world.stranger()
    client.start("ada", "old")
    assert isinstance(client.received()[-1].method, ConnectionTune)
    assert world.access.users.get("ada").password_hash.startswith("scrypt$")


def test_a_login_does_not_bring_back_a_password_that_was_changed_meanwhile(world: World) -> None:
    imported_user(world)
    changed = hash_password("new", CHEAP)

    def change_after(job: Callable[[], T], done: Callable[[T], None]) -> None:
        decided = job()
        world.access.change_password("ada", changed)
        world.jobs.append(lambda: done(decided))

    world.hub.in_thread = change_after
    client = world.stranger()
    client.start("ada", "old")
    assert isinstance(client.received()[-1].method, ConnectionTune)
    assert world.access.users.get("ada").password_hash == changed
