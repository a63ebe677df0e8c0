"""The port for other nodes: strangers are few, go in time, and keep no node out."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from leveret.cluster.rpc import peers
from leveret.cluster.rpc.link import PeerLink
from leveret.cluster.rpc.peers import PeerListener
from leveret.security.tls import MutualTls
from tests.cluster.peer import Peer
from tests.cluster.wires import hello
from tests.server.certificates import Authority
from tests.waiting import PATIENCE_S

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Listening:
    """A node that listens, and those who connect to it."""

    def __init__(self, tls: MutualTls | None = None) -> None:
        self.node = Peer("b")
        self.tls = tls
        self.listener = PeerListener("127.0.0.1", 0, tls, lambda: PeerLink(self.node, None))
        self._streams: list[Stream] = []

    async def stranger(self, host: str = HOSTS[0]) -> asyncio.StreamReader:
        """A stranger from an address."""
        stream = await asyncio.open_connection("127.0.0.1", self.listener.port, local_addr=(host, 0))
        self._streams.append(stream)
        return stream[0]

    async def reach(self) -> None:
        """Another node connects, and is authenticated."""
        calling = None if self.tls is None else self.tls.calling
        one = Peer("a")
        loop = asyncio.get_running_loop()
        address = ("127.0.0.1", self.listener.port)
        _, link = await loop.create_connection(lambda: PeerLink(one, "b"), *address, ssl=calling)
        await asyncio.wait_for(link.introduced(), PATIENCE_S)
        assert link.is_up, link.why_down
        link.close()
        await asyncio.wait_for(one.is_down.wait(), PATIENCE_S)

    async def close(self) -> None:
        self.listener.close()
        for _, writer in self._streams:
            writer.close()
        await until(lambda: not len(self.listener))


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0.001)


async def is_closed(reader: asyncio.StreamReader) -> bool:
    """Wait for the end of a stranger's connection."""
    try:
        return await asyncio.wait_for(reader.read(), PATIENCE_S) == b""
    except ConnectionError:
        return True


@asynccontextmanager
async def listening(tls: MutualTls | None = None) -> AsyncIterator[Listening]:
    made = Listening(tls)
    try:
        yield made
    finally:
        await made.close()


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


@pytest.fixture
def tls(tmp_path: Path) -> MutualTls:
    authority = Authority(tmp_path)
    own = authority.issue(None)
    return MutualTls(str(own.cert), str(own.key), str(authority.cert))


def test_the_oldest_of_too_many_strangers_goes_and_a_node_is_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "STRANGERS_MAX", 3)

    async def scene() -> None:
        async with listening() as here:
            strangers = [await here.stranger(host) for host in HOSTS]
            await until(lambda: len(here.listener) == 3)
            await here.reach()
            assert await is_closed(strangers[0])
            assert here.listener.evicted == 1
            await until(lambda: len(here.listener) == 2)

    run(scene())


def test_strangers_of_one_address_go_before_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "STRANGERS_PER_ADDRESS_MAX", 2)

    async def scene() -> None:
        async with listening() as here:
            await here.stranger(HOSTS[1])
            await until(lambda: len(here.listener) == 1)
            crowd = []
            for count in (2, 3):
                crowd.append(await here.stranger())
                await until(lambda count=count: len(here.listener) == count)  # type: ignore[misc]
            await here.stranger()
            assert await is_closed(crowd[0])
            await until(lambda: len(here.listener) == 3)
            assert here.listener.evicted == 1

    run(scene())


@pytest.mark.parametrize("first", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01"])
def test_strangers_who_do_not_get_through_tls_keep_no_node_out(
    tls: MutualTls, first: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "STRANGERS_MAX", 2)

    async def scene() -> None:
        async with listening(tls) as here:
            for _ in range(3):
                reader = await here.stranger()
                here._streams[-1][1].write(first)
                assert reader
            await here.reach()
            await until(lambda: len(here.listener) <= 2)

    run(scene())


@pytest.mark.parametrize("first", [b"", b"\0", hello()])
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_stranger_has_a_deadline(
    tls: MutualTls, first: bytes, encrypted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "HANDSHAKE_S", 0.05)

    async def scene() -> None:
        async with listening(tls if encrypted else None) as here:
            reader = await here.stranger()
            here._streams[-1][1].write(first)
            while not reader.at_eof():
                try:
                    await asyncio.wait_for(reader.read(1_000), PATIENCE_S)
                except ConnectionError:
                    break
            await until(lambda: not len(here.listener))

    run(scene())


def test_a_listener_that_closes_leaves_nothing_open(tls: MutualTls) -> None:
    async def scene() -> None:
        async with listening(tls) as here:
            readers = [await here.stranger() for _ in range(3)]
        for reader in readers:
            assert await is_closed(reader)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", here.listener.port))

    run(scene())
