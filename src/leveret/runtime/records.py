"""A record of a stream as its readers see it, and where a reader may start."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from leveret.core.message import Message, restored
from leveret.core.properties import Properties
from leveret.runtime.bodies import decode
from leveret.storage.stream.blocks import StoredRecord
from leveret.storage.stream.recorder import KEY

Place = int | str | datetime
"""An offset, "first", "last", "next", an interval such as "1h", or a time."""


class StreamRecord:
    """One record: `partition` and `offset` say where it is, `body` is what was sent."""

    __slots__ = ("_message", "_record", "partition")

    def __init__(self, partition: int, record: StoredRecord) -> None:
        self.partition = partition
        self._record = record
        self._message: Message | None = None

    def __repr__(self) -> str:
        return f"<StreamRecord {self.offset} of partition {self.partition}>"

    @property
    def offset(self) -> int:
        """Its number in the partition."""
        return self._record.offset

    @property
    def timestamp_ms(self) -> int:
        """When it was appended."""
        return self._record.timestamp_ms

    @property
    def timestamp(self) -> datetime:
        """The same as a datetime."""
        return datetime.fromtimestamp(self.timestamp_ms / 1000, UTC)

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return self._record.body

    @property
    def body(self) -> Any:
        """The body as it was sent: bytes, text or what JSON says."""
        return decode(self.properties.content_type, self.data)

    @property
    def properties(self) -> Properties:
        """The AMQP properties."""
        properties: Properties = self._as_message().properties
        return properties

    @property
    def headers(self) -> dict[str, Any]:
        """The headers; empty when there are none."""
        return self.properties.headers or {}

    @property
    def key(self) -> str | None:
        """What it was put into its partition by, if a key was given."""
        return self.headers.get(KEY)

    @property
    def filter(self) -> str | None:
        """Its filter value."""
        return self._record.filter_value.decode("utf-8", "surrogateescape") or None

    @property
    def producer(self) -> str | None:
        """Who sent it, if it was numbered."""
        return self._record.producer.decode("utf-8", "surrogateescape") or None

    @property
    def sequence(self) -> int | None:
        """Its number among those of its producer."""
        return self._record.sequence if self._record.producer else None

    @property
    def exchange(self) -> str:
        """The exchange that it came through."""
        return self._as_message().exchange

    @property
    def routing_key(self) -> str:
        """The routing key that it came with."""
        return self._as_message().routing_key

    def _as_message(self) -> Message:
        """The record as a message, which can read its own header."""
        if self._message is None:
            self._message = restored(self._record.route, self._record.content, self._record.header_len)
        return self._message
