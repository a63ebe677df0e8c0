"""Messages and records that came over HTTP: the attributes of those of the embedded broker."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.client import calls
from leveret.client.calls import ATTRIBUTES, Row
from leveret.core.jsonable import decode
from leveret.core.properties import Properties
from leveret.runtime.bodies import decode as decode_body
from leveret.runtime.bodies import decode_as
from leveret.runtime.verbs import Asynchronous, Threaded, verb

if TYPE_CHECKING:
    from leveret.client.queue import AsyncRemoteQueue, QueueVerbs, RemoteQueue

T = TypeVar("T")


class RemoteContent:
    """A body with its properties, and where it was published."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self.exchange: str = row.get("exchange", "")
        """The exchange that it was published to; empty when it was sent to a queue or stream."""
        self.routing_key: str = row["routing_key"]

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return base64.b64decode(self._row["payload_base64"])

    @property
    def body(self) -> Any:
        """The body as it was sent: bytes, text or what JSON says."""
        return decode_body(self.content_type, self.data)

    def body_as(self, kind: type[T]) -> T:
        """The body as a dataclass, a model of pydantic, a struct of msgspec or what else the serializer makes of it."""
        return decode_as(kind, self.body)

    @property
    def content_type(self) -> str | None:
        """What the body is."""
        return self._attributes.get("contentType")

    @property
    def _attributes(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._row.get("attributes", {})
        return found

    @property
    def properties(self) -> Properties:
        """The AMQP properties; the headers in them are those of your own."""
        known = {name: self._attributes.get(told) for name, told in ATTRIBUTES.items()}
        return Properties(headers=self.headers or None, priority=self._row.get("priority") or None, **known)

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that came with it, and x-death when it died; empty when there are none."""
        found: dict[str, Any] = decode(self._row.get("headers", {}))
        return found


class RemoteRecord(RemoteContent):
    """One record of a stream: `partition` and `offset` say where it is. See leveret.StreamRecord."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.partition: int = row["partition"]
        self.offset: int = row["offset"]
        self.key: str | None = row.get("key")
        self.filter: str | None = row.get("filter")
        self.producer: str | None = row.get("producer")
        self.sequence: int | None = row.get("sequence")

    def __repr__(self) -> str:
        return f"<RemoteRecord {self.offset} of partition {self.partition}>"

    @property
    def timestamp(self) -> datetime:
        """When it was appended."""
        return datetime.fromisoformat(self._row["timestamp"])

    @property
    def timestamp_ms(self) -> int:
        """The same in milliseconds since 1970."""
        return round(self.timestamp.timestamp() * 1000)


class RemotePeeked(RemoteContent):
    """A message that was looked at: it cannot be settled."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.id: str = row["message_id"]
        self.priority: int = row["priority"]
        self.deliveries: int = row["receive_count"]
        self.state: str = row.get("state", "leased")
        self.group: str | None = row.get("group_id")
        """The group that it is ordered in."""
        self.dedup_id: str | None = row.get("idempotency_key")
        """What it was de-duplicated by."""

    @property
    def enqueued_at(self) -> datetime:
        """When it was sent."""
        return datetime.fromisoformat(self._row["enqueued_at"])

    @property
    def due_at(self) -> datetime | None:
        """When one that was looked at appears (again); None when it is ready."""
        return time_of(self._row.get("due_at"))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}, delivered {self.deliveries} times>"


class MessageVerbs(RemotePeeked):
    """What both clients do with a message that was taken."""

    def __init__(self, source: QueueVerbs[Any], row: Row) -> None:
        super().__init__(row)
        self.source = source
        self.receipt: str = row["receipt_handle"]
        self.visible_until = time_of(row["visible_until"])
        self._ask = source.broker.session.ask

    @property
    def redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.deliveries > 1

    @property
    def received_at(self) -> datetime:
        """When it was handed out."""
        return datetime.fromisoformat(self._row["received_at"])

    @verb
    async def ack(self) -> None:
        """Done: it is not delivered again."""
        await self._ask(calls.settle("ack", self.source.name, self.id, self.receipt, self.visible_until))
        self.visible_until = None

    @verb
    async def nack(self, delay: float | None = None) -> None:
        """Requeue it; it is redelivered after `delay` seconds or the backoff of its queue."""
        ends = self.visible_until
        await self._ask(calls.settle("nack", self.source.name, self.id, self.receipt, ends, delay_seconds=delay))
        self.visible_until = None

    @verb
    async def extend(self, seconds: float) -> None:
        """Keep it for so many seconds from now on."""
        told = await self._ask(calls.extend(self.source.name, self.id, self.receipt, seconds))
        self.visible_until = time_of(told)

    @verb
    async def reject(self) -> None:
        """Never again: it becomes a dead letter."""
        await self._ask(calls.settle("reject", self.source.name, self.id, self.receipt, self.visible_until))
        self.visible_until = None


class RemoteMessage(MessageVerbs, Threaded):
    """A message that was taken: say what becomes of it before its visibility timeout ends. See leveret.Message."""

    source: RemoteQueue


class AsyncRemoteMessage(MessageVerbs, Asynchronous):
    """The same for asyncio."""

    source: AsyncRemoteQueue


def time_of(text: str | None) -> datetime | None:
    """A time, if there is one."""
    return None if text is None else datetime.fromisoformat(text)
