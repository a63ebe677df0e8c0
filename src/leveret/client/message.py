"""Messages that came over HTTP: the attributes of those of the embedded broker."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from leveret.client import calls
from leveret.client.calls import ATTRIBUTES, Row
from leveret.core.jsonable import decode
from leveret.core.properties import Properties
from leveret.runtime.bodies import decode as decode_body

if TYPE_CHECKING:
    from leveret.client.aqueue import AsyncRemoteQueue
    from leveret.client.queue import RemoteQueue


class RemotePeeked:
    """A message that was looked at: it cannot be settled."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self.id: str = row["message_id"]
        self.priority: int = row["priority"]
        self.deliveries: int = row["receive_count"]
        self.state: str = row.get("state", "leased")

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return base64.b64decode(self._row["payload_base64"])

    @property
    def body(self) -> Any:
        """The body as it was sent: bytes, text or what JSON says."""
        return decode_body(self.content_type, self.data)

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
        return Properties(headers=self.headers or None, priority=self.priority or None, **known)

    @property
    def headers(self) -> dict[str, Any]:
        """The headers that came with it, and x-death when it died."""
        found: dict[str, Any] = decode(self._row.get("headers", {}))
        return found

    @property
    def group(self) -> str | None:
        """The group that it is ordered in."""
        return self._row.get("group_id")

    @property
    def dedup_id(self) -> str | None:
        """What it was de-duplicated by."""
        return self._row.get("idempotency_key")

    @property
    def exchange(self) -> str:
        """The exchange that it was published to; empty when it was sent to the queue."""
        return str(self._row.get("exchange", ""))

    @property
    def routing_key(self) -> str:
        """The routing key that it was published with."""
        return str(self._row["routing_key"])

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


class RemoteTaken(RemotePeeked):
    """What is known of a message that was taken."""

    def __init__(self, row: Row) -> None:
        super().__init__(row)
        self.receipt: str = row["receipt_handle"]
        self.visible_until = time_of(row["visible_until"])

    @property
    def redelivered(self) -> bool:
        """Whether it was handed out before."""
        return self.deliveries > 1

    @property
    def received_at(self) -> datetime:
        """When it was handed out."""
        return datetime.fromisoformat(self._row["received_at"])


class RemoteMessage(RemoteTaken):
    """A message that was taken: say what becomes of it before its visibility timeout ends. See leveret.Message."""

    def __init__(self, source: RemoteQueue, row: Row) -> None:
        super().__init__(row)
        self.source = source

    def ack(self) -> None:
        """Done: it is not delivered again."""
        self.source.broker.run(calls.ack(self.source.name, self.id, self.receipt, self.visible_until))
        self.visible_until = None

    def nack(self, delay: float | None = None) -> None:
        """Give it back, to come again after `delay` seconds or the backoff of its queue."""
        self.source.broker.run(calls.nack(self.source.name, self.id, self.receipt, delay, self.visible_until))
        self.visible_until = None

    def extend(self, seconds: float) -> None:
        """Keep it for so many seconds from now on."""
        told = self.source.broker.run(calls.extend(self.source.name, self.id, self.receipt, seconds))
        self.visible_until = time_of(told)

    def reject(self) -> None:
        """Never again: it becomes a dead letter."""
        self.source.broker.run(calls.reject(self.source.name, self.id, self.receipt, self.visible_until))
        self.visible_until = None


class AsyncRemoteMessage(RemoteTaken):
    """The same for asyncio."""

    def __init__(self, source: AsyncRemoteQueue, row: Row) -> None:
        super().__init__(row)
        self.source = source

    async def ack(self) -> None:
        """Done: it is not delivered again."""
        await self.source.broker.run(calls.ack(self.source.name, self.id, self.receipt, self.visible_until))
        self.visible_until = None

    async def nack(self, delay: float | None = None) -> None:
        """Give it back, to come again after `delay` seconds or the backoff of its queue."""
        await self.source.broker.run(calls.nack(self.source.name, self.id, self.receipt, delay, self.visible_until))
        self.visible_until = None

    async def extend(self, seconds: float) -> None:
        """Keep it for so many seconds from now on."""
        told = await self.source.broker.run(calls.extend(self.source.name, self.id, self.receipt, seconds))
        self.visible_until = time_of(told)

    async def reject(self) -> None:
        """Never again: it becomes a dead letter."""
        await self.source.broker.run(calls.reject(self.source.name, self.id, self.receipt, self.visible_until))
        self.visible_until = None


def time_of(text: str | None) -> datetime | None:
    """A time, if there is one."""
    return None if text is None else datetime.fromisoformat(text)
