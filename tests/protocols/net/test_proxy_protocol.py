"""Headers of the PROXY protocol: which are taken, which are refused, and that no byte behind them is read."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.protocols.net import proxy_protocol
from leveret.protocols.net.listener import SocketListener, bind
from leveret.protocols.net.proxy_protocol import (
    HEADER_BYTES_MAX,
    LOCAL,
    PROXY,
    SIGNATURE,
    BadHeader,
    HeaderReader,
    Proxies,
)
from tests.waiting import PATIENCE_S

INET, INET6 = 0x11, 0x21
FOUR = bytes((192, 0, 2, 7)) + bytes((198, 51, 100, 1)) + b"\x12\x34\x16\x28"
SIX = bytes.fromhex("20010db8" + "00" * 11 + "07") + bytes(16) + b"\x12\x34\x16\x28"
MAPPED = bytes.fromhex("00" * 10 + "ffff" + "c0000207") + bytes(16) + b"\x12\x34\x16\x28"
TLV = b"\x04\x00\x03abc"
RUN = [asyncio.run, uvloop.run]


def header(
    addresses: bytes = FOUR,
    command: int = PROXY,
    family: int = INET,
    length: int | None = None,
    sign: bytes = SIGNATURE,
) -> bytes:
    size = len(addresses) if length is None else length
    return sign + bytes((command, family)) + size.to_bytes(2, "big") + addresses


TAKEN: dict[str, tuple[bytes, tuple[str, int] | None]] = {
    "IPv4": (header(), ("192.0.2.7", 0x1234)),
    "IPv6": (header(SIX, family=INET6), ("2001:db8::7", 0x1234)),
    "IPv4 in IPv6": (header(MAPPED, family=INET6), ("192.0.2.7", 0x1234)),
    "IPv4 with a TLV": (header(FOUR + TLV), ("192.0.2.7", 0x1234)),
    "IPv4 with what is no TLV": (header(FOUR + b"\xff"), ("192.0.2.7", 0x1234)),
    "the longest": (header(FOUR.ljust(HEADER_BYTES_MAX - 16, b"\0")), ("192.0.2.7", 0x1234)),
    "local": (header(b"", LOCAL, 0), None),
    "local with addresses": (header(FOUR, LOCAL, INET), None),
    "local of an unknown family": (header(TLV, LOCAL, 0x77), None),
}
REFUSED = {
    "nothing like it": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "AMQP": b"AMQP\0\0\x09\x01",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "version 1": b"PROXY TCP4 192.0.2.7 198.51.100.1 4660 5672\r\n",
    "version 1 unknown": b"PROXY UNKNOWN\r\n",
    "wrong signature": header(sign=SIGNATURE[:-1] + b"\r"),
    "version 1 in binary": header(command=0x11),
    "version 3": header(command=0x31),
    "unknown command": header(command=0x22),
    "unspecified family": header(family=0x00),
    "UDP": header(family=0x12),
    "UDP over IPv6": header(SIX, family=0x22),
    "UNIX": header(bytes(216), family=0x31),
    "unknown family": header(family=0x41),
    "too few addresses": header(FOUR[:-1]),
    "too few addresses of IPv6": header(SIX[:-1], family=INET6),
    "no addresses": header(b""),
    "one byte too long": header(FOUR, length=HEADER_BYTES_MAX - 15),
    "as long as can be": header(FOUR, length=0xFFFF),
    "local and too long": header(b"", LOCAL, 0, length=HEADER_BYTES_MAX),
}


def read(data: bytes, piece: int) -> HeaderReader:
    """Feed a header in pieces, as they are asked for."""
    reader, rest, complete = HeaderReader(), data, False
    while not complete:
        assert reader.wanted > 0
        size = min(piece, reader.wanted)
        complete = reader.feed(rest[:size])
        rest = rest[size:]
    assert reader.wanted == 0
    assert not rest, "what follows is not read"
    return reader


@pytest.mark.parametrize("piece", [1, 7, 16, 10_000])
@pytest.mark.parametrize("name", TAKEN)
def test_a_header_tells_the_client(name: str, piece: int) -> None:
    data, source = TAKEN[name]
    assert read(data, piece).source == source


@pytest.mark.parametrize("piece", [1, 7, 16, 10_000])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_header_is_refused_by_its_first_bytes(name: str, piece: int) -> None:
    with pytest.raises(BadHeader):
        read(REFUSED[name], piece)


@given(st.binary(max_size=600), st.integers(1, 600))
def test_any_bytes_behind_the_signature_are_taken_or_refused(data: bytes, piece: int) -> None:
    reader, rest = HeaderReader(), SIGNATURE + data
    try:
        while rest and reader.wanted:
            size = min(piece, reader.wanted)
            if reader.feed(rest[:size]):
                assert reader.source is None or len(reader.source[0]) > 1
            rest = rest[size:]
    except BadHeader:
        return
    assert len(SIGNATURE + data) - len(rest) <= HEADER_BYTES_MAX


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("127.0.0.0/8,::1", ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"), ("192.0.2.1", "::2", "", "x")),
        ("10.0.0.5", ("10.0.0.5",), ("10.0.0.6", "127.0.0.1")),
        (" 10.0.0.0/8 , 2001:db8::/32", ("10.1.2.3", "2001:db8::9"), ("11.0.0.1", "2001:db9::1")),
    ],
)
def test_load_balancers_are_named_by_addresses_and_networks(
    text: str, inside: tuple[str, ...], outside: tuple[str, ...]
) -> None:
    proxies = Proxies.parse("amqp", text, 1)
    assert [host in proxies for host in (*inside, *outside)] == [True] * len(inside) + [False] * len(outside)


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1/8", "127.0.0.1,,::1", "localhost", ",".join(["10.0.0.1"] * 101)])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument):
        Proxies.parse("amqp", text, 1)


class Door:
    """A listener behind load balancers, and who came through."""

    def __init__(self, text: str = "127.0.0.0/8", timeout_s: float = PATIENCE_S) -> None:
        self._bound = bind("127.0.0.1", 0)
        self.address = self._bound.getsockname()
        self.came: list[tuple[str, int]] = []
        self.rest: list[asyncio.Task[bytes]] = []
        self.listener = SocketListener(self._bound, self._accepted, proxies=Proxies.parse("amqp", text, timeout_s))
        self._clients: list[socket.socket] = []
        self._listens = True

    def _accepted(self, client: socket.socket, host: str, port: int) -> None:
        self.came.append((host, port))
        self._clients.append(client)
        self.rest.append(asyncio.ensure_future(asyncio.get_running_loop().sock_recv(client, 100)))

    def connect(self, data: bytes = b"") -> socket.socket:
        client = socket.create_connection(self.address, PATIENCE_S)
        client.setblocking(False)
        client.sendall(data)
        self._clients.append(client)
        return client

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.001)

    async def is_closed(self, client: socket.socket) -> bool:
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await asyncio.get_running_loop().sock_recv(client, 1) == b""
        except ConnectionResetError:
            return True

    def stop(self) -> None:
        """Listen no more."""
        if self._listens:
            self._listens = False
            self.listener.close()

    def close(self) -> None:
        self.stop()
        for client in self._clients:
            client.close()


def played(
    run: Callable[[Coroutine[Any, Any, None]], None], scene: Callable[[Door], Awaitable[None]], **door: Any
) -> None:
    async def play() -> None:
        made = Door(**door)
        try:
            await scene(made)
        finally:
            made.close()

    run(play())


@pytest.mark.parametrize("run", RUN)
def test_connections_are_handed_on_behind_their_headers(run: Callable[..., None]) -> None:
    async def scene(door: Door) -> None:
        door.connect(header() + b"hello")
        await door.until(lambda: door.rest)
        assert await door.rest[0] == b"hello"
        slow = door.connect()
        for byte in header(SIX, family=INET6):
            slow.sendall(bytes((byte,)))
            await asyncio.sleep(0)
        await door.until(lambda: len(door.rest) == 2)
        slow.sendall(b"again")
        assert await door.rest[1] == b"again"
        own = door.connect(header(b"", LOCAL, 0) + b"own")
        await door.until(lambda: len(door.rest) == 3)
        assert await door.rest[2] == b"own"
        assert door.came == [("192.0.2.7", 0x1234), ("2001:db8::7", 0x1234), own.getsockname()]

    played(run, scene)


@pytest.mark.parametrize("run", RUN)
def test_connections_without_a_header_are_closed(run: Callable[..., None]) -> None:
    async def scene(door: Door) -> None:
        for data in REFUSED.values():
            assert await door.is_closed(door.connect(data))
        for size in range(len(header())):
            short = door.connect(header()[:size])
            short.shutdown(socket.SHUT_WR)
            assert await door.is_closed(short)
        assert door.came == []

    played(run, scene)


def test_connections_of_others_are_closed_whatever_they_send() -> None:
    async def scene(door: Door) -> None:
        assert await door.is_closed(door.connect(header()))
        assert door.came == []

    played(asyncio.run, scene, text="192.0.2.0/24")


@pytest.mark.parametrize("run", RUN)
def test_a_header_that_does_not_come_in_time_closes_the_connection(run: Callable[..., None]) -> None:
    async def scene(door: Door) -> None:
        assert await door.is_closed(door.connect(header()[:20]))

    played(run, scene, timeout_s=0.01)


@pytest.mark.parametrize("run", RUN)
def test_connections_whose_header_does_not_come_make_room_and_end_with_the_listener(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy_protocol, "PENDING_MAX", 3)

    async def scene(door: Door) -> None:
        silent = [door.connect(header()[:number]) for number in range(10)]
        for client in silent[:7]:
            assert await door.is_closed(client)
        silent[-1].sendall(header()[9:])
        await door.until(lambda: door.came)
        door.stop()
        for client in silent[7:9]:
            assert await door.is_closed(client)

    played(run, scene)
