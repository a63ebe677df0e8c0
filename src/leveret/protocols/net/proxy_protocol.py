"""The PROXY protocol, version 2: a load balancer tells the address of the client before the client's first byte.

    0    signature             0D 0A 0D 0A 00 0D 0A 51 55 49 54 0A
    12   version and command   21: PROXY, for a client; 20: LOCAL, for the load balancer itself
    13   family and transport  11: TCP over IPv4, 21: TCP over IPv6
    14   length                of what follows, two bytes, the higher one first
    16   source address, destination address, source port, destination port
         TLVs                  are skipped

The header is read from the socket before TLS and before anything else is decided about the connection, byte by byte if
it comes so, and never more than it. Every connection of the listener has to begin with one, and comes from an address
that is trusted: otherwise a client could choose the address that limits and loopback rules see. Version 1 (text) is
refused: its length is known only at its end.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from leveret.core.errors import InvalidArgument
from leveret.observability.logs import Log
from leveret.protocols.net.addresses import with_port
from leveret.security.peers import address_of

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
FIXED_BYTES = 16
HEADER_BYTES_MAX = 536  # what the specification lets a sender count on; a header has addresses and a few short TLVs
PENDING_MAX = 64  # sockets of one listener whose header has not come: a load balancer sends it at once
NETWORKS_MAX = 100
LOCAL, PROXY = 0x20, 0x21
FAMILIES = {0x11: (IPv4Address, 4), 0x21: (IPv6Address, 16)}

Accepted = Callable[[socket.socket, str, int], None]
Source = tuple[str, int]
LOG = Log("net")


class BadHeader(Exception):
    """What came is no header of version 2, or one that is not taken."""


@dataclass(frozen=True, slots=True)
class Proxies:
    """The load balancers that may tell addresses, and how long they may take."""

    listener: str
    networks: tuple[IPv4Network | IPv6Network, ...]
    timeout_s: float

    @classmethod
    def parse(cls, listener: str, text: str, timeout_s: float) -> Proxies:
        """Of a listener: addresses and networks, separated by commas."""
        words = [word.strip() for word in text.split(",")]
        if len(words) > NETWORKS_MAX:
            raise InvalidArgument(f"proxy_protocol_from has over {NETWORKS_MAX} networks: name larger ones")
        try:
            return cls(listener, tuple(ip_network(word) for word in words), timeout_s)
        except ValueError as error:
            raise InvalidArgument(f"proxy_protocol_from is addresses and networks by commas: {error}") from None

    def __contains__(self, host: str) -> bool:
        address = address_of(host)
        return address is not None and any(address in network for network in self.networks)


class HeaderReader:
    """Takes one header apart; bytes in, the address of the client out."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = FIXED_BYTES

    @property
    def wanted(self) -> int:
        """How many bytes are read next at most: no byte behind the header."""
        return self._size - len(self._data)

    def feed(self, data: bytes) -> bool:
        """Take bytes, at most as many as are wanted; True when the header is complete. Raises BadHeader."""
        self._data += data
        start = bytes(self._data[: len(SIGNATURE)])
        if not SIGNATURE.startswith(start):
            raise BadHeader("it does not begin with the signature of PROXY protocol version 2")
        if len(self._data) == FIXED_BYTES == self._size:
            self._size += self._length()
        return len(self._data) == self._size

    def _length(self) -> int:
        """The length of what follows the fixed part, which is checked."""
        command, family = self._data[12], self._data[13]
        length = int.from_bytes(self._data[14:16], "big")
        if command not in (LOCAL, PROXY):
            raise BadHeader(f"version and command {command:#04x} are not known: they are 0x20 or 0x21")
        if FIXED_BYTES + length > HEADER_BYTES_MAX:
            raise BadHeader(f"it has {FIXED_BYTES + length} bytes: send at most {HEADER_BYTES_MAX}, with fewer TLVs")
        if command == PROXY:
            if family not in FAMILIES:
                # Not the address of the load balancer instead: that may be this machine, which is trusted more.
                raise BadHeader(f"family and transport {family:#04x} are not TCP over IPv4 or IPv6 (0x11, 0x21)")
            if length < 2 * FAMILIES[family][1] + 4:
                raise BadHeader(f"{length} bytes are too few for its addresses")
        return length

    @property
    def source(self) -> Source | None:
        """The client of a complete header; None: it is the load balancer itself."""
        if self._data[12] == LOCAL:
            return None
        kind, size = FAMILIES[self._data[13]]
        port = FIXED_BYTES + 2 * size
        host = kind(bytes(self._data[FIXED_BYTES : FIXED_BYTES + size]))
        return str(address_of(str(host))), int.from_bytes(self._data[port : port + 2], "big")


class ProxyProtocol:
    """Reads the headers of a listener's connections, then hands these on with the address of the client."""

    def __init__(self, proxies: Proxies, accepted: Accepted) -> None:
        """`accepted` is called with each socket behind its header."""
        self._loop = asyncio.get_running_loop()
        self._proxies = proxies
        self._accepted = accepted
        self._pending: dict[_Pending, None] = {}
        self._refused = LOG.limited("proxy header refused", listener=proxies.listener)

    def __len__(self) -> int:
        return len(self._pending)

    def accept(self, client: socket.socket, host: str, port: int) -> None:
        if host not in self._proxies:
            self._refused.note(peer=with_port(host, port), reason="the address is not in proxy_protocol_from")
            client.close()
            return
        pending = _Pending(client, host, port)
        if self._read(pending):
            return
        if len(self._pending) >= PENDING_MAX:
            self._refuse(next(iter(self._pending)), f"{PENDING_MAX} newer connections wait for their header, too")
        pending.timer = self._loop.call_later(self._proxies.timeout_s, self._refuse, pending, "it did not come in time")
        self._pending[pending] = None
        self._loop.add_reader(client, self._read, pending)

    def close(self) -> None:
        for pending in list(self._pending):
            self._forget(pending)
            pending.client.close()

    def _read(self, pending: _Pending) -> bool:
        """Read as much of a header as there is; False when more is to come."""
        try:
            while not pending.reader.feed(data := pending.client.recv(pending.reader.wanted)):
                if not data:
                    raise BadHeader("the connection was closed within it")
        except (BlockingIOError, InterruptedError):
            return False
        except (BadHeader, OSError) as error:
            self._refuse(pending, str(error))
            return True
        self._forget(pending)
        self._accepted(pending.client, *(pending.reader.source or (pending.host, pending.port)))
        return True

    def _refuse(self, pending: _Pending, reason: str) -> None:
        self._forget(pending)
        self._refused.note(peer=with_port(pending.host, pending.port), reason=reason)
        pending.client.close()

    def _forget(self, pending: _Pending) -> None:
        if pending in self._pending:
            del self._pending[pending]
            self._loop.remove_reader(pending.client)
        if pending.timer is not None:
            pending.timer.cancel()


class _Pending:
    """A socket whose header has not come completely."""

    def __init__(self, client: socket.socket, host: str, port: int) -> None:
        self.client = client
        self.host = host
        self.port = port
        self.reader = HeaderReader()
        self.timer: asyncio.TimerHandle | None = None
