"""Tokens as passwords of AMQP, with pika: scopes, virtual hosts, topics, renewal, expiry and keys that change."""

from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest
from pika.adapters.blocking_connection import BlockingConnection
from pika.exceptions import (
    ChannelClosedByBroker,
    ConnectionClosedByBroker,
    ProbableAccessDeniedError,
    ProbableAuthenticationError,
)

from tests.oauth.provider import MAKERS, Provider
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

REFUSED = (ProbableAuthenticationError, ConnectionClosedByBroker)
ALL = "leveret.read:*/*/* leveret.write:*/*/* leveret.configure:*/*/*"


@contextmanager
def connected(
    server: ServerProcess, token: str, vhost: str = "/", user: str = "ignored"
) -> Iterator[BlockingConnection]:
    credentials = pika.PlainCredentials(user, token)
    parameters = pika.ConnectionParameters("127.0.0.1", server.ports["amqp"], vhost, credentials)
    connection = BlockingConnection(parameters)
    try:
        yield connection
    finally:
        if connection.is_open:
            connection.close()


def test_a_token_is_the_password_and_its_scopes_are_the_permissions(server: ServerProcess, provider: Provider) -> None:
    token = provider.token(
        "ada", "openid leveret.configure:%2F/orders* leveret.write:%2F/amq.default leveret.read:%2F/orders*"
    )
    with connected(server, token) as connection:
        channel = connection.channel()
        channel.queue_declare("orders.new")
        channel.confirm_delivery()
        channel.basic_publish("", "orders.new", b"one", pika.BasicProperties(user_id="ada"))
        assert channel.basic_get("orders.new", auto_ack=True)[2] == b"one"
        (row,) = Api(server.ports["http"]).get("/connections")
        assert (row["user"], row["vhost"]) == ("ada", "/")
        with pytest.raises(
            ChannelClosedByBroker, match="configure access to queue 'other' in vhost '/' refused for user 'ada'"
        ):
            channel.queue_declare("other")
        again = connection.channel()
        again.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker, match=r"write access to exchange 'amq.fanout'"):
            again.basic_publish("amq.fanout", "", b"two")


def test_scopes_name_virtual_hosts(server: ServerProcess, provider: Provider) -> None:
    api = Api(server.ports["http"])
    for vhost in ("shop-eu", "shop/us", "other"):
        api.put(f"/vhosts/{vhost.replace('/', '%2F')}")
    token = provider.token("ada", "leveret.configure:shop*/* leveret.read:shop%2Fus/* leveret.write:shop%2Fus/*")
    for vhost in ("shop-eu", "shop/us"):
        with connected(server, token, vhost) as connection:
            connection.channel().queue_declare("q")
    for vhost in ("other", "/"):
        with (
            pytest.raises(ProbableAccessDeniedError, match=f"access to vhost '{vhost}' refused for user 'ada'"),
            connected(server, token, vhost),
        ):
            pass
    plain = provider.token("ada", "configure:*")
    with connected(server, plain) as connection:
        connection.channel().queue_declare("plain")
    with pytest.raises(ProbableAccessDeniedError, match="refused"), connected(server, plain, "other"):
        pass


def test_keys_of_topic_exchanges_need_the_third_part(server: ServerProcess, provider: Provider) -> None:
    both = "leveret.configure:*/* leveret.read:*/*/eu.* leveret.write:*/q leveret.write:*/amq.topic/eu.{sub}.*"
    with connected(server, provider.token("ada", both)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q")
        channel.queue_bind("q", "amq.topic", "eu.ada.new")
        channel.basic_publish("amq.topic", "eu.ada.new", b"one")
        with pytest.raises(ChannelClosedByBroker, match=r"write access to topic 'eu.eve.new' in exchange 'amq.topic'"):
            channel.basic_publish("amq.topic", "eu.eve.new", b"two")
        with pytest.raises(ChannelClosedByBroker, match=r"read access to topic 'us.x' in exchange 'amq.topic'"):
            connection.channel().queue_bind("q", "amq.topic", "us.x")
    with connected(server, provider.token("ada", "leveret.write:*/amq.topic")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker, match=r"topic 'eu.x'"):
            channel.basic_publish("amq.topic", "eu.x", b"three")


def test_user_id_and_tags_come_from_the_token(server: ServerProcess, provider: Provider) -> None:
    with connected(server, provider.token("ada", ALL)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        with pytest.raises(
            ChannelClosedByBroker, match="user_id property set to 'eve' but authenticated user was 'ada'"
        ):
            channel.basic_publish("", "q", b"", pika.BasicProperties(user_id="eve"))
    with connected(server, provider.token("ada", f"{ALL} leveret.tag:impersonator")) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.basic_publish("", "q", b"", pika.BasicProperties(user_id="eve"))


def test_limits_of_a_stored_user_are_those_of_a_token_with_its_name(server: ServerProcess, provider: Provider) -> None:
    api = Api(server.ports["http"])
    api.put("/users/ada", {"password_hash": "", "tags": ""})
    api.put("/user-limits/ada/max-connections", {"value": 1})
    token = provider.token("ada", ALL)
    with (
        connected(server, token),
        pytest.raises(ProbableAccessDeniedError, match=r"user connection limit \(1\) is reached"),
        connected(server, token),
    ):
        pass


@pytest.mark.parametrize("algorithm", MAKERS)
def test_algorithms(server: ServerProcess, provider: Provider, algorithm: str) -> None:
    provider.rotate(algorithm)
    with connected(server, provider.token("ada", ALL)) as connection:
        connection.channel().queue_declare("q")


def test_a_new_key_is_not_asked_for_by_each_login(server: ServerProcess, provider: Provider) -> None:
    with connected(server, provider.token("ada", ALL)):
        pass
    asked = provider.requests.count("/keys")
    provider.rotate(keep=True)
    for _ in range(3):
        with pytest.raises(REFUSED), connected(server, provider.token("ada", ALL)):
            pass
    assert provider.requests.count("/keys") == asked == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"aud": "other"},
        {"iss": "https://elsewhere.example"},
        {"exp": 1_000_000_000},
        {"nbf": 4_000_000_000},
        {"iat": 4_000_000_000},
        {"typ": "ID"},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_tokens_that_prove_nothing_are_refused(
    server: ServerProcess, provider: Provider, wrong: dict[str, object]
) -> None:
    with pytest.raises(REFUSED), connected(server, provider.token("ada", ALL, **wrong)):  # type: ignore[arg-type]
        pass
    assert "login refused" in server.text


def test_a_large_token_fits(server: ServerProcess, provider: Provider) -> None:
    token = provider.token("ada", ALL, roles=[f"role-{number:05}" for number in range(800)])
    assert 10_000 < len(token) < 16_384
    with connected(server, token) as connection:
        connection.channel().queue_declare("q")


def test_stored_users_log_in_as_before(server: ServerProcess) -> None:
    with connected(server, "guest", user="guest") as connection:
        connection.channel().queue_declare("q")


def test_a_token_is_renewed(server: ServerProcess, provider: Provider) -> None:
    with connected(server, provider.token("ada", f"{ALL}")) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        connection.update_secret(provider.token("ada", f"{ALL} leveret.tag:monitoring"), "renewed")
        channel.basic_publish("", "q", b"one")
        assert channel.basic_get("q", auto_ack=True)[2] == b"one"
        connection.update_secret(provider.token("ada", "leveret.write:%2F/none"), "less")
        channel.confirm_delivery()
        with pytest.raises(ChannelClosedByBroker, match=r"write access to exchange 'amq.default'"):
            channel.basic_publish("", "q", b"two")


@pytest.mark.parametrize("scope", [ALL, "leveret.read:other/*"])
def test_a_token_of_another_user_or_for_another_virtual_host_ends_the_connection(
    server: ServerProcess, provider: Provider, scope: str
) -> None:
    user = "eve" if scope == ALL else "ada"
    with connected(server, provider.token("ada", ALL)) as connection:
        with pytest.raises(ConnectionClosedByBroker) as closed:
            connection.update_secret(provider.token(user, scope), "stolen")
        assert closed.value.reply_code == 530
        assert ("New secret was refused by one of the backends" if user == "eve" else "refused") in str(closed.value)


def test_a_consumer_ends_that_a_new_token_does_not_allow(server: ServerProcess, provider: Provider) -> None:
    with connected(server, provider.token("ada", ALL)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_consume("q", lambda *_: None)
        connection.update_secret(provider.token("ada", "leveret.write:*/*/*"), "less")
        connection.process_data_events(0)
        assert channel.is_open
        assert not channel.consumer_tags


def test_a_connection_ends_with_its_token(server: ServerProcess, provider: Provider) -> None:
    # 29 s ago: tokens are taken for 30 s longer, as clocks may differ.
    with connected(server, provider.token("ada", ALL, lifetime_s=-29)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.basic_consume("q", lambda *_: None)
        with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED - credential expired") as closed:
            channel.start_consuming()
        assert closed.value.reply_code == 320
