"""Every verb as a request and the reading of its answer: what the clients for threads and for asyncio share."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

from leveret.core.jsonable import decode, encode
from leveret.embedded.outgoing import Outgoing
from leveret.http_client import Answer
from leveret.observability.propagation import traced
from leveret.runtime.bodies import encode as encode_body
from leveret.runtime.redrive import RedriveResult
from leveret.runtime.stats import QueueStats

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


@dataclass(frozen=True, slots=True)
class ClientCall(Generic[T_co]):
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
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def row_of(answer: Answer) -> Row:
    """The answer is an object."""
    return dict(answer.json())


def page_of(name: str) -> Callable[[Answer], Page]:
    """The answer is a page of a list."""

    def read(answer: Answer) -> Page:
        found = answer.json()
        return found[name], found["next"]

    return read


def _whole(name: str) -> Callable[[Answer], int]:
    def read(answer: Answer) -> int:
        return int(answer.json()[name])

    return read


# Messages


def message_json(message: Outgoing) -> dict[str, Any]:
    """A message as it is sent: its bytes as they are, so that no number or space in it changes on the way."""
    content_type, data = encode_body(message.body)
    properties = {"content_type": content_type, **(message.properties or {})}
    headers = traced(message.headers)
    told: dict[str, Any] = {
        "payload_base64": base64.b64encode(data).decode(),
        "attributes": {ATTRIBUTES.get(name, name): value for name, value in properties.items()},
        "priority": message.priority or None,
        "delay_seconds": message.delay,
        "ttl_seconds": message.ttl,
        "group_id": message.group,
        "idempotency_key": message.dedup_id,
        "headers": encode(headers) if headers else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def send(queue: str, message: Outgoing, key: str | None) -> ClientCall[str]:
    """Send one message."""
    again = key is not None or message.dedup_id is not None
    return ClientCall(
        "POST",
        path_of("queues", queue, "messages"),
        lambda answer: str(answer.json()["message_id"]),
        message_json(message),
        key,
        again=again,
    )


def send_many(queue: str, messages: Iterable[Outgoing], key: str | None) -> ClientCall[list[str | None]]:
    """Send many messages."""
    body = {"messages": [message_json(each) for each in messages]}
    path = path_of("queues", queue, "messages", "batch")

    def read(answer: Answer) -> list[str | None]:
        return [row.get("message_id") for row in answer.json()["messages"]]

    return ClientCall("POST", path, read, body, key, again=key is not None)


def receive(queue: str, count: int, wait_s: float, lease_s: float | None) -> ClientCall[list[Row]]:
    """Take messages; a lost answer leaves them leased until their time is over."""
    body: dict[str, Any] = {"max_messages": count, "encoding": "base64"}
    if wait_s:
        body["wait_seconds"] = wait_s
    if lease_s is not None:
        body["visibility_timeout"] = lease_s
    return ClientCall("POST", path_of("queues", queue, "dequeue"), _messages, body, wait_s=wait_s)


def _messages(answer: Answer) -> list[Row]:
    found: list[Row] = answer.json()["messages"]
    return found


def ack(queue: str, message_id: str, receipt: str, ends: datetime | None = None) -> ClientCall[None]:
    """Done with a message."""
    path = path_of("queues", queue, "messages", message_id)
    return ClientCall("DELETE", path, nothing, {"receipt_handle": receipt}, ends=ends)


def nack(
    queue: str, message_id: str, receipt: str, delay_s: float | None, ends: datetime | None = None
) -> ClientCall[None]:
    """Give a message back."""
    body = {"receipt_handle": receipt, **({} if delay_s is None else {"delay_seconds": delay_s})}
    return ClientCall("POST", path_of("queues", queue, "messages", message_id, "nack"), nothing, body, ends=ends)


def reject(queue: str, message_id: str, receipt: str, ends: datetime | None = None) -> ClientCall[None]:
    """Make a message a dead letter."""
    path = path_of("queues", queue, "messages", message_id, "reject")
    return ClientCall("POST", path, nothing, {"receipt_handle": receipt}, ends=ends)


def extend(queue: str, message_id: str, receipt: str, seconds: float) -> ClientCall[str]:
    """Keep a message longer; gives the time until when."""
    return ClientCall(
        "PATCH",
        path_of("queues", queue, "messages", message_id, "visibility"),
        lambda answer: str(answer.json()["visible_until"]),
        {"receipt_handle": receipt, "visibility_timeout": seconds},
    )


def ack_many(queue: str, receipts: list[str]) -> ClientCall[list[Row]]:
    """Done with many; gives those that were not leased any more."""

    def read(answer: Answer) -> list[Row]:
        found: list[Row] = answer.json()["failed"]
        return found

    return ClientCall("POST", path_of("queues", queue, "acknowledge"), read, {"receipt_handles": receipts})


def is_processed(queue: str, message_id: str, worker: str) -> ClientCall[bool]:
    """Whether a worker has handled a message."""
    path = f"{path_of('queues', queue, 'processed', message_id)}?{urlencode({'worker': worker})}"
    return ClientCall("GET", path, lambda answer: bool(answer.json()["processed"]))


def finish(queue: str, message_id: str, receipt: str, worker: str, ends: datetime | None = None) -> ClientCall[None]:
    """Done with a message, and remember that."""
    body = {"receipt_handle": receipt, "worker": worker}
    return ClientCall("POST", path_of("queues", queue, "messages", message_id, "finish"), nothing, body, ends=ends)


# Queues


def declare(
    name: str, durable: bool, arguments: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> ClientCall[Row]:
    """Make a queue as the embedded broker would: without what REST gives by default."""
    body = {"durable": durable, "arguments": encode(arguments or {}), **options}
    return ClientCall("PUT", f"{path_of('queues', name)}?defaults=none", row_of, body)


def describe(name: str) -> ClientCall[Row]:
    """Look at a queue."""
    return ClientCall("GET", path_of("queues", name), row_of)


def list_queues(after: str) -> ClientCall[Page]:
    """One page of queues, and where the next one begins."""
    return ClientCall("GET", f"/queues?{urlencode({'after': after, 'limit': 1000})}", page_of("queues"))


def stats(queue: str) -> ClientCall[QueueStats]:
    """The figures of a queue."""

    def read(answer: Answer) -> QueueStats:
        found = {**answer.json(), "name": queue}
        for name in ("depth_by_priority", "published_by_priority"):  # a server before 0.2 has only the first
            found[name] = {int(priority): count for priority, count in found.get(name, {}).items()}
        return QueueStats(**{each.name: found[each.name] for each in fields(QueueStats)})

    return ClientCall("GET", path_of("queues", queue, "stats"), read)


def browse(queue: str, limit: int, state: str, conditions: Mapping[str, Any]) -> ClientCall[list[Row]]:
    """Look at messages."""
    query = {"limit": limit, "state": state, "encoding": "base64", **conditions_json(conditions)}
    if "headers" in query:
        query["headers"] = json.dumps(query["headers"])
    return ClientCall("GET", f"{path_of('queues', queue, 'messages')}?{urlencode(query)}", _messages)


def cancel(queue: str, message_id: str) -> ClientCall[None]:
    """Remove a scheduled message."""
    return ClientCall("DELETE", path_of("queues", queue, "scheduled", message_id), nothing)


def purge(queue: str) -> ClientCall[int]:
    """Remove what is ready."""
    return ClientCall("POST", path_of("queues", queue, "purge"), _whole("purged"))


def pause(queue: str, paused: bool) -> ClientCall[None]:
    """Hand nothing out, or do so again."""
    return ClientCall("POST", path_of("queues", queue, "pause" if paused else "resume"), nothing)


def delete(queue: str, if_unused: bool, if_empty: bool) -> ClientCall[int]:
    """Delete a queue."""
    query = urlencode({"if_unused": str(if_unused).lower(), "if_empty": str(if_empty).lower()})
    return ClientCall("DELETE", f"{path_of('queues', queue)}?{query}", _whole("deleted"))


def redrive(
    queue: str, to: str | None, limit: int | None, rate: float | None, dry_run: bool, conditions: Mapping[str, Any]
) -> ClientCall[RedriveResult]:
    """Move messages; never repeated by itself, because it would count less the second time."""
    told = {"to": to, "limit": limit, "rate_per_second": rate, "dry_run": dry_run or None}
    body: dict[str, Any] = {name: value for name, value in told.items() if value is not None}
    if conditions:
        body["filter"] = conditions_json(conditions)
    wait_s = 0 if rate is None or limit is None else limit / rate
    path = path_of("queues", queue, "redrive")
    return ClientCall("POST", path, lambda answer: RedriveResult(**answer.json()), body, wait_s=wait_s, again=False)


def discard(queue: str, limit: int | None, dry_run: bool, conditions: Mapping[str, Any]) -> ClientCall[int]:
    """Remove messages; never repeated by itself, because it would count less the second time."""
    told = {"limit": limit, "dry_run": dry_run or None, "filter": conditions_json(conditions)}
    body = {name: value for name, value in told.items() if value is not None}
    return ClientCall("POST", path_of("queues", queue, "discard"), _whole("matched"), body, again=False)


def conditions_json(conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Conditions with times as numbers."""
    return {
        name: value.timestamp() if isinstance(value, datetime) else value
        for name, value in conditions.items()
        if value is not None
    }


# Exchanges


def declare_exchange(name: str, options: Mapping[str, Any]) -> ClientCall[None]:
    """Make an exchange."""
    body = {**options, "arguments": encode(options.get("arguments") or {})}
    return ClientCall("PUT", path_of("exchanges", name), nothing, body)


def describe_exchange(name: str) -> ClientCall[Row]:
    """Look at an exchange."""
    return ClientCall("GET", path_of("exchanges", name), row_of)


def publish(exchange: str, routing_key: str, message: Outgoing, key: str | None) -> ClientCall[str | None]:
    """Publish a message."""
    body = {**message_json(message), "routing_key": routing_key}
    path = path_of("exchanges", exchange, "messages")
    again = key is not None or message.dedup_id is not None
    return ClientCall("POST", path, lambda answer: answer.json()["message_id"], body, key, again=again)


def bind(
    exchange: str, destination: str, kind: str, key: str, arguments: Mapping[str, Any] | None, bound: bool
) -> ClientCall[None]:
    """Bind, or remove a binding."""
    body = {
        "destination": destination,
        "destination_type": kind,
        "routing_key": key,
        "arguments": encode(arguments or {}),
    }
    return ClientCall("POST" if bound else "DELETE", path_of("exchanges", exchange, "bindings"), nothing, body)


def delete_exchange(name: str, if_unused: bool) -> ClientCall[None]:
    """Delete an exchange."""
    query = urlencode({"if_unused": str(if_unused).lower()})
    return ClientCall("DELETE", f"{path_of('exchanges', name)}?{query}", nothing)


def decoded_arguments(row: Row) -> dict[str, Any]:
    """The arguments of a queue that was looked at."""
    found: dict[str, Any] = decode(row["arguments"])
    return found
