"""A server as its clients see it: leveret.connect(), and leveret.aconnect() for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Generic, TypeVar, Unpack
from urllib.parse import urlencode
from weakref import WeakSet

from leveret.client.calls import ClientCall, given, list_queues, list_streams, nothing, path_of, row_of, send
from leveret.client.network import TaskNetwork, ThreadNetwork
from leveret.client.queue import AsyncRemoteQueue, QueueVerbs, RemoteQueue
from leveret.client.session import ClientOptions, Remote, Session
from leveret.client.stream import AsyncRemoteStream, RemoteStream, StreamVerbs
from leveret.clock import SystemClock
from leveret.core.arguments import max_age as max_age_ms
from leveret.core.errors import ExchangeNotFound, InvalidArgument
from leveret.core.jsonable import encode
from leveret.embedded.worker import Worker
from leveret.runtime.declare import with_new_names
from leveret.runtime.keywords import ExchangeOptions, QueueOptions, SendOptions
from leveret.runtime.outgoing import Outgoing
from leveret.runtime.verbs import (
    Asynchronous,
    AsynchronousBlock,
    Closable,
    Threaded,
    ThreadedBlock,
    deprecated,
    finish,
    verb,
)

Arguments = Mapping[str, Any] | None


class ExchangeVerbs(Remote):
    """What both clients do with an exchange."""

    _kind = "exchanges"

    @verb
    async def publish(self, /, routing_key: str, body: Any, **options: Unpack[SendOptions]) -> str | None:
        """Publish a message with the options of queue.send; give its id once it is durable, None without a route."""
        message, key = Outgoing(body, **options), self.broker.session.new_key()
        sent: str | None = await self._ask(send(self._path("messages"), message, key, routing_key=routing_key))
        return sent

    @verb
    async def bind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        await self._bind("POST", to, key, arguments)

    @verb
    async def unbind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Remove a binding; a missing one is no error."""
        await self._bind("DELETE", to, key, arguments)

    async def _bind(self, method: str, to: Any, key: str, arguments: Arguments) -> None:
        body = {
            "destination": to if isinstance(to, str) else to.name,
            "destination_type": "exchange" if isinstance(to, ExchangeVerbs) else "queue",
            "routing_key": key,
            "arguments": encode(arguments or {}),
        }
        await self._ask(ClientCall(method, self._path("bindings"), nothing, body))

    @verb
    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange and its bindings."""
        query = urlencode({"if_unused": str(if_unused).lower()})
        await self._ask(ClientCall("DELETE", f"{self._path()}?{query}", nothing))


class RemoteExchange(ExchangeVerbs, Threaded):
    """One exchange, from broker.exchange(). See leveret.Exchange."""

    broker: RemoteBroker


class AsyncRemoteExchange(ExchangeVerbs, Asynchronous):
    """The same for asyncio."""

    broker: AsyncRemoteBroker


URL = "http://127.0.0.1:15672"

T = TypeVar("T")
Q = TypeVar("Q", bound=QueueVerbs[Any])
S = TypeVar("S", bound=StreamVerbs[Any, Any])
E = TypeVar("E", bound=ExchangeVerbs)


class BrokerVerbs(Closable, Generic[Q, S, E]):
    """What both clients do with a broker."""

    _queue: Callable[..., Q]
    _stream: Callable[..., S]
    _exchange: Callable[..., E]

    def __init__(self, session: Session) -> None:
        self.clock = SystemClock()
        self.session = session

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session.servers!r}>"

    @verb
    async def queue(
        self,
        /,
        name: str,
        *,
        create: bool = True,
        declare: bool | None = None,
        durable: bool = True,
        arguments: Mapping[str, Any] | None = None,
        **options: Unpack[QueueOptions],
    ) -> Q:
        """The queue of that name, made if need be; options that contradict an existing one are refused.

        create=False makes none, and asks nothing: QueueNotFound comes from the first verb that uses it.
        """
        if not created(create, declare):
            return self._queue(self, name)
        return await self._declared(name, durable, arguments or {}, with_new_names(options))

    async def _declared(self, name: str, durable: bool, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Q:
        # As the embedded broker would: without what REST gives by default.
        path, body = path_of("queues", name), {"durable": durable, "arguments": encode(arguments), **options}
        return self._queue(self, name, await self.session.ask(ClientCall("PUT", f"{path}?defaults=none", row_of, body)))

    @verb
    async def queues(self) -> list[Q]:
        """Every queue that one may use, by name."""
        return [self._queue(self, row["name"], row) async for row in self.session.rows(list_queues)]

    @verb
    async def stream(
        self,
        name: str,
        *,
        create: bool = True,
        declare: bool | None = None,
        partitions: int | None = None,
        max_age: str | float | timedelta | None = None,
        max_bytes: int | None = None,
        segment_bytes: int | None = None,
    ) -> S:
        """The stream of that name, made if need be; options that contradict an existing one are refused.

        create=False makes none, and asks nothing: QueueNotFound comes from the first verb that uses it.
        """
        if not created(create, declare):
            return self._stream(self, name)
        age_s = None if max_age is None else _seconds(max_age)
        body = given(partitions=partitions, max_age=age_s, max_bytes=max_bytes, segment_bytes=segment_bytes)
        return self._stream(
            self, name, await self.session.ask(ClientCall("PUT", path_of("streams", name), row_of, body))
        )

    @verb
    async def streams(self) -> list[S]:
        """Every stream that one may use, by name."""
        return [self._stream(self, row["name"], row) async for row in self.session.rows(list_streams)]

    @verb
    async def exchange(self, /, name: str, type: str | None = None, **options: Unpack[ExchangeOptions]) -> E:
        """The exchange of that name, made if need be (direct unless told otherwise)."""
        path = path_of("exchanges", name)
        if type is None:
            try:
                await self.session.ask(ClientCall("GET", path, nothing))
                return self._exchange(self, name)
            except ExchangeNotFound:
                type = "direct"
        body = {"type": type, **options, "arguments": encode(options.get("arguments") or {})}
        await self.session.ask(ClientCall("PUT", path, nothing, body))
        return self._exchange(self, name)

    @verb
    async def rest(self, seconds: float) -> None:
        """Do nothing for a while, or until the client is closed."""
        await self.session.rest(seconds)

    @verb
    async def flush(self) -> None:
        """Everything that was answered is durable already; here because the embedded broker has it."""

    async def _close(self) -> None:
        await self.session.close()


class RemoteBroker(BrokerVerbs[RemoteQueue, RemoteStream, RemoteExchange], ThreadedBlock):
    """A broker on a server, from leveret.connect(); safe to use from any number of threads.

    The verbs are those of leveret.Broker and its queues. A request whose answer is lost is sent again, with an
    Idempotency-Key if it sends a message, so that it is never there twice.
    """

    _queue: Callable[..., RemoteQueue] = RemoteQueue
    _stream: Callable[..., RemoteStream] = RemoteStream
    _exchange: Callable[..., RemoteExchange] = RemoteExchange

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.running: WeakSet[Worker] = WeakSet()

    def run(self, call: ClientCall[T]) -> T:
        """Ask until there is an answer, or no hope."""
        return finish(self.session.ask(call))

    async def _close(self) -> None:
        """Let workers finish, then close the connections."""
        for worker in list(self.running):
            worker.stop()
        await super()._close()


class AsyncRemoteBroker(BrokerVerbs[AsyncRemoteQueue, AsyncRemoteStream, AsyncRemoteExchange], AsynchronousBlock):
    """A broker on a server, from leveret.aconnect(), for the tasks of one loop. See leveret.RemoteBroker."""

    _queue: Callable[..., AsyncRemoteQueue] = AsyncRemoteQueue
    _stream: Callable[..., AsyncRemoteStream] = AsyncRemoteStream
    _exchange: Callable[..., AsyncRemoteExchange] = AsyncRemoteExchange

    async def run(self, call: ClientCall[T]) -> T:
        """Ask until there is an answer, or no hope."""
        return await self.session.ask(call)


def created(create: bool, declare: bool | None) -> bool:
    """Whether to make what may not be there; `declare` is the old name."""
    if declare is None:
        return create
    deprecated("declare is called create now")
    return declare


def _seconds(age: str | float | timedelta) -> float:
    """An age such as 7D in seconds."""
    if isinstance(age, timedelta):
        return age.total_seconds()
    if not isinstance(age, str):
        return age
    try:
        return max_age_ms(age) / 1000
    except ValueError:
        raise InvalidArgument(f"max_age is seconds, a timedelta or a text such as 7D, not {age!r}") from None


def connect(url: str | Sequence[str] = URL, **options: Unpack[ClientOptions]) -> RemoteBroker:
    """A client of the server at a URL, which may have a user and a password in it; nothing is asked yet.

    http:// and https:// have every verb; amqp:// and amqps:// are faster, and for brokers of other makes, too. Several
    URLs, as a list or separated by commas, are those of nodes of a cluster: when one fails, the next one is asked.

    Options: `token`; `tls`, an ssl.SSLContext; `timeout` in seconds, for each attempt; `retries`; `vhost`, the virtual
    host, "/" unless told otherwise; with `idempotent=False` messages carry no key, and one whose fate is unknown raises
    Unreachable instead of being sent again. Over AMQP: `prefetch` and `heartbeat`.
    """
    where = url if isinstance(url, str) else ",".join(url)
    if where.startswith("amqp"):
        from leveret.client.amqp import broker

        return broker.connect(where, **options)
    return RemoteBroker(Session(ThreadNetwork(), where, **options))


def aconnect(url: str | Sequence[str] = URL, **options: Unpack[ClientOptions]) -> AsyncRemoteBroker:
    """The same as connect, for asyncio: `async with leveret.aconnect(url) as broker`, then the same verbs, awaited."""
    where = url if isinstance(url, str) else ",".join(url)
    if where.startswith("amqp"):
        from leveret.client.amqp import broker

        return broker.aconnect(where, **options)
    return AsyncRemoteBroker(Session(TaskNetwork(), where, **options))
