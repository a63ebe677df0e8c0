"""Clients behind HAProxy, and headers by hand: limits, rules and logs see the address of the client."""

import base64
import http.client
import json
import socket
import ssl
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.haproxy_process import HaproxyProcess
from tests.protocols.net.test_proxy_protocol import header
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

ALL = ("--proxy-protocol", "amqp, amqps, http, https")
GUEST = {"Authorization": "Basic " + base64.b64encode(b"guest:guest").decode()}
PROTOCOL_HEADER = b"AMQP\0\0\x09\x01"


def get(port: int, path: str, context: ssl.SSLContext | None = None) -> Any:
    """What is answered, as guest."""
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=PATIENCE_S, context=context)
    try:
        connection.request("GET", path, headers=GUEST)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return json.loads(body)
    finally:
        connection.close()


def rest_of(port: int, data: bytes) -> bytes:
    """What the server answers until it closes, or has nothing more to say."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(data)
        try:
            return client.recv(10_000)
        except ConnectionResetError:
            return b""


def test_clients_behind_haproxy_are_known_by_their_own_addresses(tmp_path: Path, authority: Authority) -> None:
    identity = authority.issue("localhost")
    context = ssl.create_default_context(cafile=str(authority.cert))
    tls = ("--amqps-port", "0", "--tls-cert", str(identity.cert), "--tls-key", str(identity.key))
    with ServerProcess(tmp_path, *ALL, *tls) as server:
        behind = {name: server.ports[name] for name in ("amqp", "amqps", "http", "https")}
        with HaproxyProcess(tmp_path, behind) as haproxy:
            ports = haproxy.ports
            for name, options in (("amqp", None), ("amqps", pika.SSLOptions(context, "127.0.0.1"))):
                parameters = pika.ConnectionParameters("127.0.0.1", ports[name], ssl_options=options)
                with pika.BlockingConnection(parameters) as connection:
                    own = connection._impl._transport._sock.getsockname()[1]
                    shown = wait_until(lambda: get(ports["https"], "/api/connections", context))
                    assert [(row["peer_host"], row["peer_port"]) for row in shown] == [("127.0.0.1", own)]
                    connection.channel().queue_declare(name)
                server.wait_for(f"connection opened peer=127.0.0.1:{own}")
                wait_until(lambda: not get(ports["http"], "/api/connections"))
            assert get(ports["http"], "/health/live") == {"status": "ok"}


def test_haproxy_without_the_header_or_with_the_old_one_is_refused(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, *ALL) as server:
        for send in ("", "send-proxy"):
            with HaproxyProcess(tmp_path, {"http": server.ports["http"]}, send) as haproxy:
                assert rest_of(haproxy.ports["http"], b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""
        server.wait_for("proxy header refused listener=http")


@pytest.mark.parametrize("name", ["amqp", "http"])
def test_a_client_that_comes_without_a_load_balancer_is_refused(tmp_path: Path, name: str) -> None:
    with ServerProcess(tmp_path, *ALL, "--proxy-protocol-from", "192.0.2.0/24") as server:
        assert rest_of(server.ports[name], header() + PROTOCOL_HEADER) == b""
        server.wait_for(f"proxy header refused listener={name} peer=127.0.0.1:")
        assert "is not in proxy_protocol_from" in server.text


def test_limits_and_loopback_rules_see_the_address_of_the_header(tmp_path: Path) -> None:
    login = GUEST["Authorization"].encode()
    request = b"GET /api/whoami HTTP/1.1\r\nHost: localhost\r\nAuthorization: %b\r\n\r\n" % login
    limits = ("--half-open-per-ip-max", "2", "--plain-auth-remote")
    with ServerProcess(tmp_path, *ALL, *limits) as server:
        local = header(bytes((127, 0, 0, 1)) * 2 + bytes(4))
        assert rest_of(server.ports["http"], local + request).startswith(b"HTTP/1.1 200 ")
        assert rest_of(server.ports["http"], header() + request).startswith(b"HTTP/1.1 401 ")
        server.wait_for("user 'guest' can only connect from this machine")
        clients = [socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) for _ in range(3)]
        for client in clients:
            client.sendall(header() + PROTOCOL_HEADER)
            assert client.recv(1) == b"\x01", "each is heard"
        server.wait_for("connection evicted listener=amqp peer=192.0.2.7:4660")
        for client in clients:
            client.close()


def test_listeners_that_are_not_named_take_no_header(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--proxy-protocol", "amqp") as server:
        assert get(server.ports["http"], "/health/live") == {"status": "ok"}
        assert rest_of(server.ports["http"], header()).startswith(b"HTTP/1.1 400 ")
        with pytest.raises(pika.exceptions.AMQPConnectionError):
            pika.BlockingConnection(pika.URLParameters(server.url))
