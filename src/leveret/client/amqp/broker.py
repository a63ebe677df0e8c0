"""A broker over AMQP: what leveret.connect("amqp://...") and aconnect give."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, TypeVar, Unpack

from leveret.client.amqp.outbox import publish_method
from leveret.client.amqp.queue import AmqpQueue, AmqpQueueVerbs, AsyncAmqpQueue
from leveret.client.amqp.session import AmqpSession
from leveret.client.amqp.stream import AmqpStream, AmqpStreamVerbs, AsyncAmqpStream
from leveret.client.amqp.task_link import TaskLink
from leveret.client.amqp.thread_link import ThreadLink
from leveret.client.broker import (
    Arguments,
    AsyncRemoteBroker,
    AsyncRemoteExchange,
    BrokerVerbs,
    ExchangeVerbs,
    RemoteBroker,
    RemoteExchange,
    created,
)
from leveret.client.session import ClientOptions
from leveret.core.arguments import QUEUE_TYPE
from leveret.core.errors import ExchangeNotFound, InvalidArgument, NotSupported, QueueFull, QueueNotFound
from leveret.runtime.declare import arguments_of, new_arguments
from leveret.runtime.keywords import ExchangeOptions, SendOptions
from leveret.runtime.stream import stream_arguments
from leveret.runtime.verbs import verb
from leveret.wire import methods

LEVERET = "Leveret"
PORTABLE = {
    "dead_letter", "expires", "max_bytes", "max_length", "max_priority", "overflow", "single_active_consumer", "ttl",
}  # fmt: skip
"""Options of a queue that brokers of other makes have under the same argument."""
EXCHANGE_OPTIONS = {"durable", "auto_delete", "internal", "arguments"}


class AmqpExchangeVerbs(ExchangeVerbs):
    """What both clients do with an exchange over AMQP."""

    def __init__(self, broker: Any, name: str) -> None:
        super().__init__(broker, name)
        self.session: AmqpSession = broker.session

    @verb
    async def publish(self, /, routing_key: str, body: Any, **options: Unpack[SendOptions]) -> str | None:
        """Publish a message with the options of queue.send; give its id once it is confirmed, None without a route."""
        outbox, link = self.session.outbox, self.session.link
        publish = outbox.one(publish_method(self.name, routing_key), body, options)
        await link.confirm(publish)
        if publish.outcome is not None and publish.outcome.refused:
            raise QueueFull(f"a queue behind exchange '{self.name}' refused the message: it is full, or has failed")
        return outbox.id(publish) if publish.outcome is None else None

    @verb
    async def bind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Hand messages with a matching routing key to a queue (by name too) or to another exchange."""
        kind = methods.ExchangeBind if isinstance(to, ExchangeVerbs) else methods.QueueBind
        await self.session.link.call(kind(_name(to), self.name, key, arguments=dict(arguments or {})))

    @verb
    async def unbind(self, to: Any, key: str = "", arguments: Arguments = None) -> None:
        """Remove a binding; a missing one is no error."""
        kind = methods.ExchangeUnbind if isinstance(to, ExchangeVerbs) else methods.QueueUnbind
        await self.session.link.call(kind(_name(to), self.name, key, arguments=dict(arguments or {})))

    @verb
    async def delete(self, *, if_unused: bool = False) -> None:
        """Delete the exchange and its bindings."""
        await self.session.link.call(methods.ExchangeDelete(self.name, if_unused), again=False)


def _name(to: Any) -> str:
    name: str = to if isinstance(to, str) else to.name
    return name


class AmqpExchange(AmqpExchangeVerbs, RemoteExchange):
    """One exchange over AMQP, from broker.exchange(). See leveret.Exchange."""


class AsyncAmqpExchange(AmqpExchangeVerbs, AsyncRemoteExchange):
    """The same for asyncio."""


Q = TypeVar("Q", bound=AmqpQueueVerbs[Any])
S = TypeVar("S", bound=AmqpStreamVerbs[Any])
E = TypeVar("E", bound=AmqpExchangeVerbs)


class AmqpBrokerVerbs(BrokerVerbs[Q, S, E]):
    """What both clients do with a broker over AMQP; verbs that are not here have no equal there."""

    session: AmqpSession

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.session!r}>"

    @property
    def blocked(self) -> str | None:
        """Why the broker takes no messages now; None when it does."""
        return self.session.link.connection.blocked

    async def _declared(self, name: str, durable: bool, arguments: Mapping[str, Any], options: Mapping[str, Any]) -> Q:
        await self._declare(name, durable, dict(arguments), options)
        return self._queue(self, name)

    async def _declare(self, name: str, durable: bool, raw: dict[str, Any], options: Mapping[str, Any]) -> None:
        given = arguments_of(options, raw)
        if raw.get(QUEUE_TYPE) == "stream":
            raise InvalidArgument("a stream is made by broker.stream(), and that gives what reads it")
        exists = await self._exists(name)
        if exists and not given and durable:
            return
        if self.session.link.connection.product == LEVERET:
            given = new_arguments(options, raw)
        else:
            self._check_portable(options)
        dead = options.get("dead_letter")
        if dead is not None and not await self._exists(dead):
            await self._declare(dead, True, {}, {})
        await self.session.link.call(methods.QueueDeclare(name, durable=durable, arguments=given))

    def _check_portable(self, options: Mapping[str, Any]) -> None:
        product = self.session.link.connection.product or "this broker"
        for name in (each for each, value in options.items() if value is not None and each not in PORTABLE):
            raise NotSupported(
                f"{product} has no queue option {name}: leave it out, or say what the broker knows by arguments={{...}}"
            )

    async def _exists(self, name: str) -> bool:
        try:
            await self.session.link.call(methods.QueueDeclare(name, passive=True))
        except QueueNotFound:
            return False
        return True

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
        """The stream of that name, made if need be; options that contradict an existing one are refused."""
        if created(create, declare):
            given = stream_arguments(partitions, max_age, max_bytes, segment_bytes)
            if given or not await self._exists(name):
                if partitions is not None and self.session.link.connection.product not in ("", LEVERET):
                    raise NotSupported("only streams of Leveret have partitions here: leave them out")
                arguments = {**given, QUEUE_TYPE: "stream"}
                await self.session.link.call(methods.QueueDeclare(name, durable=True, arguments=arguments))
        return self._stream(self, name)

    @verb
    async def exchange(self, /, name: str, type: str | None = None, **options: Unpack[ExchangeOptions]) -> E:
        """The exchange of that name, made if need be (direct unless told otherwise)."""
        unknown = options.keys() - EXCHANGE_OPTIONS
        if unknown:
            raise InvalidArgument(
                f"an exchange has the options {', '.join(sorted(EXCHANGE_OPTIONS))}, not {', '.join(sorted(unknown))}"
            )
        try:
            if type is None:
                await self.session.link.call(methods.ExchangeDeclare(name, "direct", passive=True))
                return self._exchange(self, name)
        except ExchangeNotFound:
            pass
        wanted: dict[str, Any] = {"durable": True, **options, "arguments": dict(options.get("arguments") or {})}
        await self.session.link.call(methods.ExchangeDeclare(name, type or "direct", **wanted))
        return self._exchange(self, name)

    @verb
    async def flush(self) -> None:
        """Return when everything that was sent is confirmed, and the broker has read all acks."""
        await self.session.link.barrier()


class AmqpBroker(AmqpBrokerVerbs[AmqpQueue, AmqpStream, AmqpExchange], RemoteBroker):
    """A broker over AMQP, from leveret.connect("amqp://..."); safe to use from any number of threads."""

    session: AmqpSession
    _queue = AmqpQueue
    _stream = AmqpStream
    _exchange = AmqpExchange


class AsyncAmqpBroker(AmqpBrokerVerbs[AsyncAmqpQueue, AsyncAmqpStream, AsyncAmqpExchange], AsyncRemoteBroker):
    """A broker over AMQP, from leveret.aconnect("amqp://..."), for the tasks of one loop."""

    session: AmqpSession
    _queue = AsyncAmqpQueue
    _stream = AsyncAmqpStream
    _exchange = AsyncAmqpExchange


def connect(url: str, **options: Unpack[ClientOptions]) -> AmqpBroker:
    """A client for threads."""
    return AmqpBroker(AmqpSession(ThreadLink, url, **options))


def aconnect(url: str, **options: Unpack[ClientOptions]) -> AsyncAmqpBroker:
    """A client for tasks."""
    return AsyncAmqpBroker(AmqpSession(TaskLink, url, **options))
