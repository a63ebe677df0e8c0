import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from leveret.protocols.net import listener
from leveret.protocols.net.listener import SocketListener, bind
from tests.waiting import PATIENCE_S


class Exhausted:
    """A listening socket in a process that has too many open files, once."""

    def __init__(self, real: socket.socket, number: int) -> None:
        self._real = real
        self._errors = [OSError(number, os.strerror(number))]

    def accept(self) -> Any:
        if self._errors:
            raise self._errors.pop()
        return self._real.accept()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


async def accepted_after(number: int, make_room: Callable[[], bool] = lambda: False) -> bool:
    """Whether a client is accepted though the first try fails with an error."""
    bound = bind("127.0.0.1", 0)
    came: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def accepted(client: socket.socket, host: str, port: int) -> None:
        client.close()
        came.set_result(host)

    listening = SocketListener(Exhausted(bound, number), accepted, make_room)  # type: ignore[arg-type]
    with socket.create_connection(bound.getsockname()):
        host = await asyncio.wait_for(came, PATIENCE_S)
    listening.close()
    return host == "127.0.0.1"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.ECONNABORTED])
def test_clients_are_accepted_again_after_an_error(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "RETRY_S", 0.01)
    assert asyncio.run(accepted_after(number))


def test_accepted_sockets_notice_a_peer_whose_machine_is_gone() -> None:
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        with socket.create_connection(bound.getsockname()) as client:
            server, _ = bound.accept()
            with server:
                assert client.getpeername() == server.getsockname()
                assert server.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                assert server.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize(("number", "asked"), [(errno.EMFILE, True), (errno.ENFILE, True), (errno.ENOBUFS, False)])
def test_room_is_made_when_no_file_descriptor_is_left(
    number: int, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "RETRY_S", PATIENCE_S if asked else 0.01)
    closed: list[bool] = []

    def make_room() -> bool:
        closed.append(not closed)
        return closed[-1]

    assert asyncio.run(accepted_after(number, make_room))
    assert any(closed) is asked
