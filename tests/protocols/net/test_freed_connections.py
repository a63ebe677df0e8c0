"""A closed connection is freed when its socket is closed: gc, which looks for cycles, may not run for hours."""

import asyncio
import gc
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

import leveret
from leveret.protocols.amqp.connection import AmqpConnection
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer, AmqpSocket
from leveret.protocols.http.connection import HttpConnection
from leveret.protocols.net.admission import ConnectionBudget, Slot
from leveret.protocols.net.listener import bind
from leveret.security.access import Access
from leveret.security.tls import Certificates, ServerTls
from tests.protocols.amqp.wire import Client, SocketLink
from tests.protocols.http.world import World
from tests.server.certificates import Authority
from tests.waiting import wait_until

KINDS = (AmqpConnection, AmqpSocket, HttpConnection, Slot)
MANY = 5


@pytest.fixture(params=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> ServerTls | None:
    """TLS of the server, or none."""
    if request.param == "plain":
        return None
    issued = Authority(tmp_path).issue("localhost")
    return ServerTls(Certificates(str(issued.cert), str(issued.key)))


OF_OTHER_TESTS: list[object] = []
"""Connections that were there before the test: the process may have run others."""


@pytest.fixture(autouse=True)
def _no_gc() -> Iterator[None]:
    gc.collect()
    gc.disable()
    OF_OTHER_TESTS.extend(alive())
    yield
    OF_OTHER_TESTS.clear()
    gc.enable()


def alive() -> list[object]:
    """The connections of this test that are not freed."""
    known = set(map(id, OF_OTHER_TESTS))
    return [each for each in gc.get_objects() if isinstance(each, KINDS) and id(each) not in known]


def connected(port: int, tls: ServerTls | None) -> SocketLink:
    """The end of a client; its TLS trusts all servers."""
    link = SocketLink("127.0.0.1", port)
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        link.socket = context.wrap_socket(link.socket)
    return link


def test_connections_of_amqp_are_freed(tls: ServerTls | None) -> None:
    def use(bound: socket.socket) -> None:
        for number in range(MANY):
            client = Client(connected(bound.getsockname()[1], tls)).open()
            if number % 2:
                client.leave()
            client.link.close()
        wait_until(lambda: not alive(), alive)

    async def run() -> None:
        with leveret.open() as broker, bind("127.0.0.1", 0) as bound:
            with broker.runtime as core:
                access = Access(core)
            server = AmqpServer(broker.runtime, access, AmqpLimits(), ConnectionBudget(10, 10, 10))
            server.listen(bound, tls)
            await asyncio.to_thread(use, bound)
            server.stop_listening()
            await server.drain(320, "shutdown", 0)

    uvloop.run(run())


def test_connections_of_http_are_freed(tls: ServerTls | None) -> None:
    with World(tls=tls) as world:
        for _ in range(MANY):
            link = connected(world.port, tls)
            link.send(b"POST /a HTTP/1.1\r\nHost: test\r\nContent-Length: 3\r\n\r\none")
            assert link.receive().startswith(b"HTTP/1.1 200")
            link.close()
        wait_until(lambda: not alive(), alive)
