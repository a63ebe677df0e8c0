"""A request and the reading of its answer, and what requests and answers are made of."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode

from leveret.core.jsonable import encode
from leveret.http_client import Answer
from leveret.observability.propagation import traced
from leveret.runtime.bodies import encode as encode_body
from leveret.runtime.outgoing import Outgoing

ATTRIBUTES = {
    "content_type": "contentType",
    "content_encoding": "contentEncoding",
    "correlation_id": "correlationId",
    "reply_to": "replyTo",
    "message_id": "messageId",
    "timestamp": "timestamp",
    "type": "type",
    "user_id": "userId",
    "app_id": "appId",
}
ANY_ID = "-"

T_co = TypeVar("T_co", covariant=True)
Row = Mapping[str, Any]
Page = tuple[list[Row], str | None]
"""Rows of a list, and where the next page begins."""


class ClientCall(NamedTuple, Generic[T_co]):
    """A request and what its answer means. `again`: it may be repeated when it is unknown whether it was done."""

    method: str
    path: str
    read: Callable[[Answer], T_co]
    body: Any = None
    key: str | None = None
    wait_s: float = 0
    again: bool = True
    ends: datetime | None = None
    """When the lease ends that it settles."""


def nothing(answer: Answer) -> None:
    """The answer is that it was done."""


def path_of(*parts: str) -> str:
    """A path made of names, whatever is in them."""
    # Most names need no quoting, and to find that out here takes a tenth of the time.
    return "".join([f"/{part if part.isascii() and part.isalnum() else quote(part, safe='')}" for part in parts])


def row_of(answer: Answer) -> Row:
    """The answer is an object."""
    return dict(answer.json())


def field_of(name: str) -> Callable[[Answer], Any]:
    """The answer has one interesting field."""
    return lambda answer: answer.json()[name]


_message_id = field_of("message_id")


def page(path: str, name: str, after: str, limit: int = 1000) -> ClientCall[Page]:
    """A page of a list, by its path and the field with the rows."""

    def read(answer: Answer) -> Page:
        found = answer.json()
        return found[name], found["next"]

    return ClientCall("GET", f"{path}?{urlencode({'after': after, 'limit': limit})}", read)


def list_queues(after: str) -> ClientCall[Page]:
    """Queues, by name."""
    return page("/queues", "queues", after)


def list_streams(after: str) -> ClientCall[Page]:
    """Streams, by name."""
    return page("/streams", "streams", after)


def given(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def content_json(
    body: Any, headers: Mapping[str, Any] | None, properties: Mapping[str, Any] | None, **labels: Any
) -> dict[str, Any]:
    """A message or record as it is sent: its bytes as they are, so that no number or space in it changes on the way."""
    content_type, data = encode_body(body)
    attributes = {"content_type": content_type, **(properties or {})}
    return given(
        payload_base64=base64.b64encode(data).decode(),
        attributes={ATTRIBUTES.get(name, name): value for name, value in attributes.items()},
        headers=encode(headers) if headers else None,
        **labels,
    )


def message_json(message: Outgoing) -> dict[str, Any]:
    """A message as it is sent."""
    return content_json(
        message.body,
        traced(message.headers),
        message.properties,
        priority=message.priority or None,
        delay_seconds=message.delay,
        ttl_seconds=message.ttl,
        group_id=message.group,
        idempotency_key=message.dedup_id,
    )


def send(path: str, message: Outgoing, key: str | None, **options: str) -> ClientCall[Any]:
    """Send one message; gives its id."""
    again = key is not None or message.dedup_id is not None
    return ClientCall("POST", path, _message_id, {**message_json(message), **options}, key, again=again)


def settle(
    verb: str, queue: str, message_id: str, receipt: str, ends: datetime | None = None, **options: Any
) -> ClientCall[None]:
    """End a lease by `ack`, `nack`, `reject` or `finish`; `ends` is when it expires."""
    path = path_of("queues", queue, "messages", message_id)
    body = {"receipt_handle": receipt, **given(**options)}
    if verb == "ack":
        return ClientCall("DELETE", path, nothing, body, ends=ends)
    return ClientCall("POST", f"{path}/{verb}", nothing, body, ends=ends)


def extend(queue: str, message_id: str, receipt: str, seconds: float) -> ClientCall[str]:
    """Keep a message longer; gives the time until when."""
    path = path_of("queues", queue, "messages", message_id, "visibility")
    body = {"receipt_handle": receipt, "visibility_timeout": seconds}
    return ClientCall("PATCH", path, field_of("visible_until"), body)


def conditions_json(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions with times as numbers; the numbers among the ids of messages have a field of their own."""
    told = {name: value.timestamp() if isinstance(value, datetime) else value for name, value in conditions.items()}
    ids = told.get("message_ids")
    if isinstance(ids, list | tuple) and any(isinstance(each, int) for each in ids):
        told["numbers"] = [each for each in ids if isinstance(each, int)]
        told["message_ids"] = [each for each in ids if not isinstance(each, int)] or None
    return given(**told)
