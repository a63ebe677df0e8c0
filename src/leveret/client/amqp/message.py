"""Messages and records that came over AMQP, with the attributes of those that came over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from leveret.client.amqp.channels import received_properties
from leveret.client.amqp.link import ACKS_MAX, Link
from leveret.client.amqp.receiving import ReceiveChannel
from leveret.client.amqp.traffic import Delivery
from leveret.client.message import AsyncRemoteMessage, MessageVerbs, RemoteContent, RemoteMessage, RemoteRecord
from leveret.core.errors import NotSupported
from leveret.core.properties import Properties
from leveret.runtime.verbs import verb
from leveret.wire.codec import decode

if TYPE_CHECKING:
    from leveret.client.amqp.queue import AmqpQueue, AmqpQueueVerbs, AsyncAmqpQueue

COUNT = "x-delivery-count"
LAZY: dict[str, Callable[[Any], Any]] = {
    "_method": lambda found: decode(found._delivery.method),
    "exchange": lambda found: found._method.exchange,
    "routing_key": lambda found: found._method.routing_key,
    "id": lambda found: found.properties.message_id or "",
    "priority": lambda found: found.properties.priority or 0,
    "state": lambda found: "leased",
    "group": lambda found: found.headers.get("x-group-id"),
    "dedup_id": lambda found: found.headers.get("x-deduplication-id"),
    "deliveries": lambda found: 1 + max(int(found._delivery.redelivered), _count(found.headers.get(COUNT))),
    "receipt": lambda found: f"{found._channel.number}.{found._epoch}.{found._delivery.tag}",
    "visible_until": lambda found: None,
    "partition": lambda found: _count(found.headers.get("x-stream-partition")),
    "offset": lambda found: _count(found.headers.get("x-stream-offset")),
    "key": lambda found: found.headers.get("x-partition-key"),
    "filter": lambda found: found.headers.get("x-stream-filter-value"),
    "producer": lambda found: found.headers.get("x-producer"),
    "sequence": lambda found: found.headers.get("x-sequence"),
}


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


class AmqpContent(RemoteContent):
    """A body with its properties, as it came."""

    _delivery: Delivery
    if not TYPE_CHECKING:

        def __getattr__(self, name):
            """What a message says is looked at when it is asked for, once."""
            make = LAZY.get(name)
            if make is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            found = self.__dict__[name] = make(self)
            return found

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return self._delivery.body

    @property
    def content_type(self) -> str | None:
        """What the body is."""
        return self.properties.content_type

    @cached_property
    def properties(self) -> Properties:
        """The AMQP properties."""
        return received_properties(self._delivery)

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that came with it; empty when there are none."""
        return self.properties.headers or {}


class AmqpMessageVerbs(AmqpContent, MessageVerbs):
    """What both clients do with a message that was taken."""

    source: AmqpQueueVerbs[Any]

    def __init__(self, source: AmqpQueueVerbs[Any], channel: ReceiveChannel, delivery: Delivery) -> None:
        self.source = source
        self._delivery, self._channel, self._epoch = delivery, channel, channel.epoch

    @property
    def redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self._delivery.redelivered

    @property
    def enqueued_at(self) -> datetime:
        """When it was published, if its publisher says so."""
        return _published_at(self)

    @property
    def received_at(self) -> datetime:
        """AMQP does not say."""
        raise NotSupported("AMQP does not say when a message was handed out: note the time when you receive it")

    @property
    def due_at(self) -> datetime | None:
        """One that was taken is not due."""
        return None

    def acknowledge(self) -> None:
        """Done with it; called under the lock."""
        self._channel.ack(self._delivery.tag, self._epoch)

    @verb
    async def ack(self) -> None:
        """Done: told to the broker with other acks, after some milliseconds at the latest."""
        settle(self.source.link, self._channel, self._delivery.tag, self._epoch)

    @verb
    async def nack(self, delay: float | None = None) -> None:
        """Requeue it; AMQP knows no delay."""
        if delay is not None:
            raise NotSupported("AMQP requeues at once or after the backoff of the queue: leave the delay out")
        settle(self.source.link, self._channel, self._delivery.tag, self._epoch, requeue=True)

    @verb
    async def extend(self, seconds: float) -> None:
        """What came over AMQP is taken for as long as the connection lasts."""

    @verb
    async def reject(self) -> None:
        """Never again: it becomes a dead letter."""
        settle(self.source.link, self._channel, self._delivery.tag, self._epoch, requeue=False)


class AmqpMessage(AmqpMessageVerbs, RemoteMessage):
    """A message that was taken over AMQP: say what becomes of it. See leveret.Message."""

    source: AmqpQueue


class AsyncAmqpMessage(AmqpMessageVerbs, AsyncRemoteMessage):
    """The same for asyncio."""

    source: AsyncAmqpQueue


class AmqpRecord(AmqpContent, RemoteRecord):
    """One record of a stream, as it came over AMQP."""

    def __init__(self, delivery: Delivery) -> None:
        self._delivery = delivery

    @property
    def timestamp(self) -> datetime:
        """When it was published, if its publisher says so."""
        return _published_at(self)


def settle(link: Link, channel: ReceiveChannel, tag: int, epoch: int, requeue: bool | None = None) -> None:
    """Say what becomes of a message: done, unless it is to be requeued (True) or becomes a dead letter (False)."""
    with link.lock:
        if requeue is None:
            channel.ack(tag, epoch)
        else:
            channel.refuse(tag, epoch, requeue)
    if requeue is not None or channel.unsent_acks >= ACKS_MAX:
        link.touch()
    else:
        link.touch_soon()


def _published_at(content: RemoteContent) -> datetime:
    seconds = content.properties.timestamp
    if seconds is None:
        raise NotSupported("AMQP does not say when it was published: let publishers set the property timestamp")
    return datetime.fromtimestamp(seconds, UTC)
