"""One connection to an LDAP server: TLS, bind and search, all of it before one deadline.

It waits, and is therefore for worker threads. The deadline is of the whole: a server that sends a byte now and then
does not get more time than one that sends nothing. Answers are bounded in size and number.
Addresses are looked up in another thread: the resolver of the machine may take as long as it likes.
"""

import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

from leveret.core.errors import InvalidArgument
from leveret.security.ldap import wire
from leveret.security.ldap.wire import Code, LdapEntry, LdapMessage, Malformed, Result, SearchScope
from leveret.security.peers import is_loopback

KEPT_S = 60.0

Address = tuple[socket.AddressFamily, Any]
PORTS = {"ldap": 389, "ldaps": 636}
MESSAGE_BYTES_MAX = 1 << 20
SEARCH_BYTES_MAX = 8 << 20
READ_BYTES = 65_536

T = TypeVar("T")


class HostNames:
    """What was looked up is used again for a minute, and longer while nothing newer can be had."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._asking: dict[tuple[str, int], Future[list[Address]]] = {}
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    def addresses(self, host: str, port: int, deadline_s: float) -> list[Address]:
        """The addresses of a host; none if they are not known in time."""
        key = (host, port)
        known = self._known.get(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        try:
            found = self._ask(key).result(max(0.0, deadline_s - time.monotonic()))
        except (OSError, UnicodeError, TimeoutError):
            return [] if known is None else known[1]
        self._known[key] = (time.monotonic() + KEPT_S, found)
        return found

    def _ask(self, key: tuple[str, int]) -> "Future[list[Address]]":
        """Look a name up in a thread of its own; one at a time for each, so that none pile up."""
        with self._mutex:
            if key not in self._asking:
                self._asking[key] = Future()
                Thread(target=self._resolve, args=(key,), name="leveret-names", daemon=True).start()
            return self._asking[key]

    def _resolve(self, key: tuple[str, int]) -> None:
        with self._mutex:
            answer = self._asking[key]
        try:
            found = socket.getaddrinfo(*key, type=socket.SOCK_STREAM)
            answer.set_result([(family, address) for family, _, _, _, address in found])
        except Exception as error:
            answer.set_exception(error)
        with self._mutex:
            del self._asking[key]


class Unavailable(Exception):
    """A server does not answer, or not as one should: another one may."""


class LdapFailed(Exception):
    """A server has answered that it does not do what was asked."""

    def __init__(self, what: str, result: Result) -> None:
        super().__init__(f"{what}: {result}")
        self.code = result.code


@dataclass(frozen=True, slots=True)
class LdapServer:
    """The address of a server, and how it is spoken with."""

    url: str
    host: str
    port: int
    tls: bool
    start_tls: bool

    @classmethod
    def parse(cls, url: str, start_tls: bool) -> "LdapServer":
        """The server of a URL; raises InvalidArgument."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            parts, port = urlsplit(""), None
        extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username
        if parts.scheme not in PORTS or not parts.hostname or extra:
            raise InvalidArgument(
                f"an LDAP server is like ldaps://ldap.example.org or ldap://10.0.0.7:389, not {url!r}"
            )
        tls = parts.scheme == "ldaps"
        return cls(url, parts.hostname, port or PORTS[parts.scheme], tls, start_tls and not tls)

    @property
    def is_encrypted(self) -> bool:
        """Whether passwords cannot be read on their way."""
        return self.tls or self.start_tls


class LdapConnection:
    """A connection; after any Unavailable it is of no use."""

    def __init__(self, server: LdapServer, names: HostNames, context: ssl.SSLContext | None, deadline_s: float) -> None:
        """Connect, by TLS if the server is to be spoken with so; raises Unavailable."""
        self.deadline_s = deadline_s
        """When it gives up, by time.monotonic(); set it anew before using the connection again."""
        self._server = server
        self._last_id = 0
        self._read = b""
        self._socket = self._connected(names)
        try:
            if server.start_tls:
                result = self._ask(wire.start_tls_request(), wire.EXTENDED_DONE)
                if result.code != Code.SUCCESS:
                    raise Unavailable(f"it does not take StartTLS: {result}")
                if self._read:
                    raise Unavailable("it has sent something between StartTLS and TLS")
            if server.is_encrypted:
                assert context is not None, "TLS has a context"
                self._secure(context)
        except BaseException:
            self._socket.close()
            raise

    def _connected(self, names: HostNames) -> socket.socket:
        """A socket to the first address that takes a connection."""
        reason: object = "its name has no address"
        addresses = names.addresses(self._server.host, self._server.port, self.deadline_s)
        for index, (family, address) in enumerate(addresses):
            made = socket.socket(family, socket.SOCK_STREAM)
            try:
                made.settimeout(self._left_s() / (len(addresses) - index))  # time is left for the others
                made.connect(address)
            except OSError as error:
                made.close()
                reason = error
            else:
                made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return made
        raise Unavailable(str(reason))

    def _secure(self, context: ssl.SSLContext) -> None:
        """Shake hands; the name in the certificate is that of the URL."""
        try:
            self._socket.settimeout(self._left_s())
            self._socket = context.wrap_socket(self._socket, server_hostname=self._server.host)
        except OSError as error:
            raise Unavailable(f"TLS failed: {error}") from None

    def close(self) -> None:
        """Take leave, without waiting."""
        with suppress(OSError):
            self._socket.settimeout(0)
            self._socket.send(wire.message(self._last_id + 1, wire.unbind_request()))
        self._socket.close()

    # Operations

    def bind(self, dn: str, password: bytes) -> Result:
        """Bind as an entry. Only SUCCESS authenticates; after any other result the connection is anonymous."""
        return self._ask(wire.bind_request(dn, password), wire.BIND_DONE)

    def search(
        self, base: str, scope: SearchScope, filter: bytes, attributes: Iterable[str] = (), *, entries_max: int
    ) -> list[LdapEntry]:
        time_s = max(1, int(self._left_s()))
        self._send(wire.search_request(base, scope, filter, attributes, entries_max + 1, time_s))
        found: list[LdapEntry] = []
        size = 0
        for message in self._answers():
            if message.kind == wire.ENTRY:
                found.append(_decoded(wire.entry_of, message.body))
                size += len(message.body)
                if len(found) > entries_max + 1 or size > SEARCH_BYTES_MAX:
                    raise Unavailable("it has sent more entries than were asked for")
            elif message.kind == wire.SEARCH_DONE:
                result = _decoded(wire.result_of, message.body)
                if result.code == Code.SUCCESS or (result.code == Code.SIZE_LIMIT and len(found) > entries_max):
                    return found
                raise self._failure(f"the search below {base!r}", result)
            elif message.kind != wire.REFERENCE:  # of Active Directory, to other partitions
                break
        raise Unavailable("its answer is to something else")

    # Messages

    def _ask(self, operation: bytes, answer: int) -> Result:
        """The result of an operation that has one answer; raises Unavailable when the server is busy, too."""
        self._send(operation)
        message = next(self._answers())
        if message.kind != answer:
            raise Unavailable("its answer is to something else")
        result = _decoded(wire.result_of, message.body)
        if result.code in (Code.BUSY, Code.UNAVAILABLE, Code.TIME_LIMIT):
            raise Unavailable(str(result))
        return result

    def _failure(self, what: str, result: Result) -> Exception:
        busy = result.code in (Code.BUSY, Code.UNAVAILABLE, Code.TIME_LIMIT)
        return Unavailable(str(result)) if busy else LdapFailed(what, result)

    def _send(self, operation: bytes) -> None:
        self._last_id += 1
        try:
            self._socket.settimeout(self._left_s())
            self._socket.sendall(wire.message(self._last_id, operation))
        except OSError as error:
            raise Unavailable(str(error) or "it took too long") from None

    def _answers(self) -> Iterator[LdapMessage]:
        while True:
            message = _decoded(wire.message_of, self._receive())
            if message.id != self._last_id:  # 0: it tells why it is about to close the connection
                raise Unavailable("it ended the connection" if message.id == 0 else "its answer is to something else")
            yield message

    def _receive(self) -> bytes:
        while (found := _decoded(wire.body_size, self._read[: wire.HEADER_BYTES_MAX])) is None:
            self._fill()
        begin, size = found
        if size > MESSAGE_BYTES_MAX:
            raise Unavailable(f"it sends a message of {size} bytes, the limit is {MESSAGE_BYTES_MAX}")
        while len(self._read) < begin + size:
            self._fill()
        body, self._read = self._read[begin : begin + size], self._read[begin + size :]
        return body

    def _fill(self) -> None:
        try:
            self._socket.settimeout(self._left_s())
            data = self._socket.recv(READ_BYTES)
        except OSError as error:
            raise Unavailable(str(error) or "it took too long") from None
        if not data:
            raise Unavailable("it closed the connection")
        self._read += data

    def _left_s(self) -> float:
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            raise Unavailable("it took too long")
        return left_s


def _decoded(decode: Callable[[bytes], T], data: bytes) -> T:
    """What bytes of a server say."""
    try:
        return decode(data)
    except Malformed as error:
        raise Unavailable(str(error)) from None


def is_local(host: str) -> bool:
    """Whether what is said to a host does not leave this machine."""
    return host == "localhost" or is_loopback(host)
