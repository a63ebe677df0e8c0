"""What a client is told when it is made, and the requests of one: sent again until there is an answer, or no hope."""

from __future__ import annotations

import secrets
import ssl
from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, Protocol, TypedDict, TypeVar, Unpack

from leveret.client.calls import ClientCall, Page, Row, path_of
from leveret.client.network import AnswerLost, Network
from leveret.client.pool import Pool
from leveret.client.retry import REQUEST_S, RETRIES, Again, RetryAttempts
from leveret.client.servers import Address, request_bytes, servers_of
from leveret.core.errors import BrokerClosed, InvalidArgument

T = TypeVar("T")


class ClientOptions(TypedDict, total=False):
    """What can be said beside the URL."""

    token: str | None
    """An API key or a JSON Web Token, in place of a user and a password in the URL."""
    tls: ssl.SSLContext | None
    timeout: float
    """In seconds, for each attempt."""
    retries: int
    idempotent: bool
    """False: messages carry no key, and one whose fate is unknown raises Unreachable instead of being sent again."""
    vhost: str | None
    """The virtual host, "/" unless told otherwise."""


class Session:
    """The requests of one client to its servers."""

    def __init__(self, network: Network, url: str, **options: Unpack[ClientOptions]) -> None:
        unknown = options.keys() - ClientOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(ClientOptions.__annotations__)
            raise InvalidArgument(f"a client has the options {known}, not {', '.join(sorted(unknown))}")
        self.servers = servers_of(url, options.get("token"), options.get("tls"), options.get("vhost"))
        self.rest = network.rest
        self._network = network
        self._pool = Pool(self.servers, network)
        self._timeout_s = options.get("timeout", REQUEST_S)
        self._retries = options.get("retries", RETRIES)
        self._idempotent = options.get("idempotent", True)
        self._closed = False

    async def ask(self, call: ClientCall[T]) -> T:
        """Ask until there is an answer, or no hope."""
        request, attempts = partial(self._request, call), RetryAttempts(self._retries)
        timeout_s = self._timeout_s + call.wait_s
        while not self._closed:
            try:
                answer = await self._pool.ask(request, timeout_s, call.wait_s > 0, call.again)
            except AnswerLost as lost:
                delay_s = attempts.lost(call, lost.sent, lost.reason)
            else:
                found = attempts.answered(call, answer)
                if not isinstance(found, Again):
                    return found
                delay_s = found.delay_s
            await self.rest(delay_s)
        raise BrokerClosed("the client was closed: open it again with leveret.connect() or aconnect()")

    async def rows(self, page: Callable[[str], ClientCall[Page]]) -> AsyncGenerator[Row, None]:
        """The rows of all pages of a list."""
        after: str | None = ""
        while after is not None:
            rows, after = await self.ask(page(after))
            for row in rows:
                yield row

    def _request(self, call: ClientCall[Any], address: Address) -> bytes:
        """A call as bytes, the same for each attempt at one server."""
        return request_bytes(call.method, address.target(call.path), address.head, call.body, call.key)

    def new_key(self) -> str | None:
        """What makes the attempts to send a message the same one."""
        return secrets.token_hex(16) if self._idempotent else None

    async def close(self) -> None:
        """End what waits, then close the connections; once more is no error."""
        self._closed = True
        self._network.close()
        await self._pool.close()


class HasSession(Protocol):
    """A client."""

    session: Session


class Remote:
    """What a client knows by its name: a queue, an exchange, a stream."""

    _kind: str
    """The first part of its path."""

    def __init__(self, broker: HasSession, name: str) -> None:
        self.broker = broker
        self.name = name
        self._ask = broker.session.ask

    def _path(self, *parts: str) -> str:
        return path_of(self._kind, self.name, *parts)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"
