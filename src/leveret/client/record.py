"""Records of a stream that came over HTTP: the attributes of those of the embedded broker."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

from leveret.client.calls import ATTRIBUTES, Row
from leveret.core.jsonable import decode
from leveret.core.properties import Properties
from leveret.runtime.bodies import decode as decode_body


class RemoteRecord:
    """One record: `partition` and `offset` say where it is, `body` is what was sent. See leveret.StreamRecord."""

    def __init__(self, row: Row) -> None:
        self._row = row
        self.partition: int = row["partition"]
        self.offset: int = row["offset"]
        self.key: str | None = row.get("key")
        self.filter: str | None = row.get("filter")
        self.producer: str | None = row.get("producer")
        self.sequence: int | None = row.get("sequence")
        self.exchange: str = row.get("exchange", "")
        self.routing_key: str = row["routing_key"]

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

    @property
    def data(self) -> bytes:
        """The body as bytes."""
        return base64.b64decode(self._row["payload_base64"])

    @property
    def body(self) -> Any:
        """The body as it was sent: bytes, text or what JSON says."""
        return decode_body(self.properties.content_type, self.data)

    @property
    def properties(self) -> Properties:
        """The AMQP properties."""
        attributes = self._row.get("attributes", {})
        known = {name: attributes.get(told) for name, told in ATTRIBUTES.items()}
        return Properties(headers=self.headers or None, **known)

    @property
    def headers(self) -> dict[str, Any]:
        """The headers; empty when there are none."""
        found: dict[str, Any] = decode(self._row.get("headers", {}))
        return found
