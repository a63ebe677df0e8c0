"""Many wrong passwords at once: clients with right ones log in meanwhile."""

import asyncio
import socket
import threading

import pytest

import leveret
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.listener import bind
from leveret.security import passwords, users
from leveret.security.access import Access
from leveret.security.passwords import Cost, hash_password
from leveret.wire.codec import decode, encode
from leveret.wire.frames import PROTOCOL_HEADER, FrameReader, FrameWriter
from leveret.wire.methods import ConnectionStart, ConnectionStartOk, ConnectionTune, Method
from tests.waiting import PATIENCE_S

CHEAP = Cost(n=2, r=1, p=1)
WRONG = 60
CAPABILITIES = {"capabilities": {"authentication_failure_close": True}}


class Client:
    """A client that sends its password as soon as it is connected."""

    def __init__(self, address: tuple[str, int], user: str, password: str, host: str = "127.0.0.1") -> None:
        self._socket = socket.create_connection(address, PATIENCE_S, (host, 0))
        self._socket.setblocking(False)
        self._reader = FrameReader(1_048_576, 65_535)
        writer = FrameWriter()
        writer.method(0, encode(ConnectionStartOk(CAPABILITIES, "PLAIN", f"\0{user}\0{password}".encode(), "en_US")))
        self._socket.sendall(PROTOCOL_HEADER + writer.take())

    async def next(self) -> Method:
        """The next method that the server sends."""
        async with asyncio.timeout(PATIENCE_S):
            while (frame := self._reader.next_frame()) is None:
                data = await asyncio.get_running_loop().sock_recv(self._socket, 65_536)
                assert data, "the server has closed the connection"
                self._reader.feed(data)
        return decode(frame[2])

    async def is_let_in(self) -> bool:
        assert isinstance(await self.next(), ConnectionStart)
        return isinstance(await self.next(), ConnectionTune)

    def close(self) -> None:
        self._socket.close()


def test_right_passwords_are_accepted_while_wrong_ones_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    free, hashing = threading.Event(), []

    def slow(stored: str, password: bytes) -> bool:
        if password == b"wrong":
            hashing.append(stored)
            assert free.wait(PATIENCE_S)
        return passwords.verify(stored, password)

    monkeypatch.setattr(users, "verify", slow)

    async def run() -> None:
        with leveret.open() as broker, bind("127.0.0.1", 0) as bound:
            with broker.runtime as core:
                access = Access(core, None, CHEAP)
                for name in ("ada", "bob"):
                    access.add_user(name, hash_password("right", CHEAP))
            server = AmqpServer(broker.runtime, access, AmqpLimits(handshake_ms=10**9), ConnectionBudget(100, 100, 100))
            server.listen(bound)
            address = bound.getsockname()
            clients = [Client(address, "ada", "right")]
            assert await clients[0].is_let_in()
            flood = [Client(address, "ada", "wrong") for _ in range(WRONG)]
            try:
                async with asyncio.timeout(PATIENCE_S):
                    while not hashing or len(server.clients) <= WRONG:
                        await asyncio.sleep(0.001)
                for user, host in (("ada", "127.0.0.1"), ("bob", "127.0.0.2")):
                    clients.append(Client(address, user, "right", host))
                    assert await clients[-1].is_let_in(), (user, host)
                assert not free.is_set()
            finally:
                free.set()
            assert not await flood[0].is_let_in()
            for each in (*flood, *clients):
                each.close()
            server.stop_listening()
            await server.drain(320, "shutdown", 0)

    asyncio.run(run())
