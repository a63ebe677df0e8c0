"""The end of a connection: the client closes the socket, and further connection.close methods are answered."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.protocols.amqp.server import CLOSE_ANSWERS_MAX
from leveret.wire import methods as m
from tests.protocols.amqp.wire import Client, SocketLink
from tests.server_process import ServerProcess

CLOSE = m.ConnectionClose(200, "bye")
CAPABILITIES = {"capabilities": {"authentication_failure_close": True}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    place: Path = tmp_path_factory.mktemp("served")
    with ServerProcess(place) as server:
        yield server


@pytest.fixture
def client(running: ServerProcess) -> Iterator[Client]:
    with Client(SocketLink("127.0.0.1", running.port)) as connected:
        yield connected


def test_each_close_of_a_client_is_answered(client: Client) -> None:
    client.open()
    client.send(0, CLOSE, CLOSE)
    client.expect(0, m.ConnectionCloseOk)
    client.expect(0, m.ConnectionCloseOk)
    client.send(1, m.BasicAck(1))  # of a thread that does not know yet
    assert client.call(0, CLOSE) == m.ConnectionCloseOk()
    client.send(0, m.ConnectionCloseOk())
    assert client.ended()


def test_a_client_whose_login_is_refused_may_answer(client: Client) -> None:
    client.greet()
    client.send(0, m.ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0wrong", "en_US"))
    assert client.expect(0, m.ConnectionClose).reply_code == 403
    assert client.call(0, CLOSE) == m.ConnectionCloseOk()
    client.send(0, m.ConnectionCloseOk())
    assert client.ended()


def test_bytes_that_are_no_frame_end_it(client: Client) -> None:
    client.open()
    client.leave()
    client.raw(b"\xff" * 100)
    assert client.ended()


def test_answers_to_further_closes_are_limited(client: Client) -> None:
    client.open()
    client.send(0, *[CLOSE] * (CLOSE_ANSWERS_MAX + 10), m.ConnectionCloseOk())
    for _ in range(1 + CLOSE_ANSWERS_MAX):
        client.expect(0, m.ConnectionCloseOk)
    assert client.ended()
