"""What a client is told when it is made, its requests until there is an answer or no hope, and its connections."""

from __future__ import annotations

import random
import secrets
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Collection
from functools import partial
from typing import Any, NamedTuple, Protocol, TypedDict, TypeVar, Unpack

from leveret.client.calls import ClientCall, Page, Row, path_of
from leveret.client.network import AnswerLost, AnswerTimeouts, Connection, Network
from leveret.client.servers import UNABLE, Address, Request, ServerList, probe, request_bytes, servers_of
from leveret.clock import SystemClock
from leveret.core import errors
from leveret.core.errors import AccessRefused, BrokerClosed, InvalidArgument, InvalidReceipt, LeveretError, Unreachable
from leveret.http_client import Answer

RETRIES = 6
BASE_S = 0.05
DELAY_S_MAX = 5.0
REQUEST_S = 30.0


def _title(kind: type[LeveretError]) -> str:
    """What a server calls a kind of refusal."""
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in kind.__name__).strip()
    return words.capitalize()


KINDS: dict[str, type[LeveretError]] = {
    _title(kind): kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LeveretError)
}
BY_STATUS: dict[int, type[LeveretError]] = {
    403: AccessRefused,
    404: errors.NotFound,
    502: Unreachable,
    503: Unreachable,
}

UNKNOWN = 401
HOW_TO_SAY_WHO = "name a user and the password in the URL, http://USER:PASSWORD@HOST:PORT, or a token"


class Again(NamedTuple):
    """Ask again after a while."""

    delay_s: float


class RetryAttempts:
    """The attempts at one call."""

    def __init__(self, retries: int = RETRIES) -> None:
        self._left = retries
        self._delay_s = BASE_S
        self._lost = False

    def lost(self, call: ClientCall[T], sent: bool, error: Unreachable) -> float:
        """The connection was lost: how long to wait before the next attempt. `sent`: the server may have it."""
        self._lost = self._lost or sent
        if (sent and not call.again) or self._left <= 0:
            raise error
        return self._next()

    def answered(self, call: ClientCall[T], answer: Answer) -> T | Again:
        """What an answer means: the result, or that it is worth another attempt."""
        if answer.status < 300:
            return call.read(answer)
        refusal = refusal_of(answer)
        if self._lost and isinstance(refusal, InvalidReceipt) and _has_time(call):
            # The attempt whose answer was lost has done it: no other client can have ended a lease that still had time.
            return call.read(answer._replace(body=b""))
        # A server that is unable may have lost a node that had done it.
        unable = answer.status in UNABLE and call.again
        busy = unable or (answer.status == 429 and type(refusal) is LeveretError)
        if not busy or self._left <= 0:
            raise refusal
        asked = answer.headers.get("retry-after", "")
        return Again(max(self._next(), min(float(asked), DELAY_S_MAX) if asked.isdigit() else 0))

    def _next(self) -> float:
        """Twice as long as before, and not the same for all who lost the same server."""
        self._left -= 1
        delay_s = self._delay_s * random.uniform(0.5, 1.5)
        self._delay_s = min(self._delay_s * 2, DELAY_S_MAX)
        return delay_s


def refusal_of(answer: Answer) -> LeveretError:
    """The exception that the embedded broker would have raised."""
    told = answer.json()
    detail = str(told.get("detail") or told.get("reason") or f"the server answered {answer.status}")
    if answer.status == UNKNOWN:
        return AccessRefused(f"{detail.partition(':')[0]}: {HOW_TO_SAY_WHO}")
    kind = KINDS.get(str(told.get("title")), BY_STATUS.get(answer.status, LeveretError))
    return kind(detail)


def _has_time(call: ClientCall[T]) -> bool:
    """Whether the lease that a call settles has not expired."""
    return call.ends is not None and call.ends.timestamp() * 1000 > SystemClock().now_ms()


IDLE_MAX = 64  # connections that are kept for the next request


class Pool:
    """The connections of a client."""

    def __init__(self, servers: ServerList, network: Network) -> None:
        self._servers = servers
        self._network = network
        self._idle: list[Connection] = []
        self._waiting: set[Connection] = set()
        self._lock = threading.Lock()
        self._closed = False

    async def ask(self, request: Request, timeout_s: float, waits: bool = False, repeatable: bool = False) -> Answer:
        """Send a request by any connection; one that `waits` for messages ends when the pool is closed.

        `repeatable`: it may be asked of another server, so a server that gives no sign of life is not waited for.
        """
        address = self._servers.current
        patience = AnswerTimeouts(timeout_s, self._servers.silent_s(repeatable), self._lives)
        try:
            link = self._take(address) or await self._network.connect(address, self._servers.connect_s)
            try:
                if waits:
                    self._wait(link)
                answer = await link.ask(request(address), patience)
            except BaseException:
                # Also when a task is cancelled: the answer to this request must not be taken for that to another one.
                with self._lock:
                    self._waiting.discard(link)
                link.abort()
                raise
        except AnswerLost:
            self._servers.failed(address)
            raise
        if not self._keep(link):
            await link.close()
        if answer.status in UNABLE:
            self._servers.failed(address)
        return answer

    async def _lives(self, address: Address) -> bool:
        """Whether a server answers anything."""
        patience = AnswerTimeouts(self._servers.connect_s, None, self._lives)
        try:
            link = await self._network.connect(address, patience.timeout_s)
        except AnswerLost:
            return False
        try:
            await link.ask(probe(address), patience)
        except (AnswerLost, Unreachable):
            return False
        finally:
            link.abort()
        return True

    def _wait(self, link: Connection) -> None:
        with self._lock:
            if self._closed:
                raise AnswerLost("the client was closed: connect again", False)
            self._waiting.add(link)

    def _take(self, address: Address) -> Connection | None:
        """The connection to a server that was used last, if it was kept there; those to others are closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                link = self._idle.pop()
            if link.address is address and link.fresh:
                return link
            link.abort()

    def _keep(self, link: Connection) -> bool:
        """Have a connection ready for the next request; False when it is not fit, or one too many."""
        with self._lock:
            self._waiting.discard(link)
            kept = link.reusable and not self._closed and len(self._idle) < IDLE_MAX
            if kept:
                self._idle.append(link)
        return kept

    async def close(self) -> None:
        """Close what is idle or waits for messages now, and everything else when its answer has come."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            for link in self._waiting:
                link.stop()
        for link in idle:
            await link.close()


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
    prefetch: int
    """Over AMQP: so many messages may be pushed to a worker or loop before they are settled."""
    heartbeat: int
    """Over AMQP: seconds between signs of life; 0: none."""


OF_AMQP = {"prefetch", "heartbeat"}


def check_options(options: ClientOptions, refused: Collection[str] = ()) -> None:
    """Refuse what no client has, or what is not for this one."""
    known = ClientOptions.__annotations__.keys() - refused
    unknown = options.keys() - known
    if unknown:
        raise InvalidArgument(
            f"a client has the options {', '.join(each for each in ClientOptions.__annotations__ if each in known)}, "
            f"not {', '.join(sorted(unknown))}"
        )


class Session:
    """The requests of one client to its servers."""

    def __init__(self, network: Network, url: str, **options: Unpack[ClientOptions]) -> None:
        check_options(options, OF_AMQP)
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
