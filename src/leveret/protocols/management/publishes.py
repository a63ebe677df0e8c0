"""A message that an operator publishes by hand."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Awaitable
from typing import Any

from leveret.core.arguments import TIME_MS_MAX
from leveret.core.broker import Broker, Published
from leveret.core.deadletter import all_keys, without_client_deaths
from leveret.core.properties import Properties, content
from leveret.protocols.http.router import Answer
from leveret.protocols.management.bindings import find_exchange
from leveret.protocols.management.call import ManagementCall
from leveret.protocols.management.refusals import BadRequest, answer
from leveret.protocols.management.values import PROPERTIES
from leveret.runtime.large_bodies import drop_unused, is_large, put_away
from leveret.runtime.outgoing import PreparedMessage, check_headers, check_size
from leveret.security.authorisation import check_user_id

SHORT_BYTES_MAX = 255
PRIORITY_MAX = 255
NUMBERS = {"priority": PRIORITY_MAX, "delivery_mode": 2, "timestamp": 2**63 - 1}
PERSISTENT = 2


def publish(call: ManagementCall) -> Answer | Awaitable[Answer]:
    """Publish a message; say whether a queue has it, when it is durable."""
    call.need("payload", "payload_encoding", "properties", "routing_key")
    key = call.field("routing_key", str)
    prepared = _prepared(call)
    if is_large(call.context.async_broker.runtime, prepared):
        return _publish_large(call, key, prepared)
    return call.change(lambda core: _routed(_send(call, core, key, prepared)))


def destinations(call: ManagementCall) -> list[str]:
    """The queues that a message would go to, if the user may publish it."""
    call.need("payload", "payload_encoding", "properties", "routing_key")
    key, prepared = call.field("routing_key", str), _prepared(call)
    with call.context.async_broker.runtime as core:
        _check_publish(call, core, key, prepared)
        found = core.route_through(call.named("vhost"), call.named_exchange(), key, prepared.properties)
        return [queue.name for queue in found]


async def _publish_large(call: ManagementCall, key: str, prepared: PreparedMessage) -> Answer:
    """Put the body away first, in another thread."""
    async_broker = call.context.async_broker
    with async_broker.runtime as core:
        _check_publish(call, core, key, prepared)
    away = await async_broker.in_thread(lambda: put_away(async_broker.runtime, prepared))
    sent = call.change(lambda core: _routed(_send(call, core, key, away)))
    return await sent if isinstance(sent, Awaitable) else sent


def _check_publish(call: ManagementCall, core: Broker, key: str, prepared: PreparedMessage) -> None:
    """Refuse who may not publish so."""
    exchange = find_exchange(call.virtual_host(core), call.named_exchange())
    for each in all_keys(prepared.properties, key) if prepared.properties.headers else [key]:
        call.authorize("basic.publish", {"exchange": exchange.name}, each if exchange.type == "topic" else None)


def _send(call: ManagementCall, core: Broker, key: str, prepared: PreparedMessage) -> Published:
    """Hand a message to the core; under the lock."""
    try:
        _check_publish(call, core, key, prepared)
        options = prepared.options(core.now_ms)
        persistent = prepared.properties.delivery_mode == PERSISTENT
        exchange = call.named_exchange()
        return core.publish_through(
            call.named("vhost"), exchange, key, prepared.properties, prepared.data, persistent=persistent, **options
        )
    finally:
        drop_unused(call.context.async_broker.runtime, prepared)


def _routed(published: Published) -> Answer:
    return answer({"routed": published.routed and not published.refused})


def _prepared(call: ManagementCall) -> PreparedMessage:
    """The message that a body describes."""
    data = _payload(call)
    check_size(len(data), call.context.async_broker.runtime.options.message_bytes_max)
    found = without_client_deaths(_properties(call))
    check_user_id(call.identity, found.user_id)
    check_headers(*content(found, b""))
    ttl_ms = None if found.expiration is None else _expiration_ms(found.expiration)
    return PreparedMessage(found, data, found.priority or 0, None, ttl_ms, 0, None)


def _payload(call: ManagementCall) -> bytes:
    """The body of a message, as text or in base64."""
    text, encoding = call.field("payload", str), call.field("payload_encoding", str)
    try:
        if encoding == "base64":
            return b64decode(text, validate=True)
        if encoding == "string":
            return text.encode()
    except (binascii.Error, ValueError):
        raise BadRequest("the payload is not what payload_encoding says: send text or base64") from None
    raise BadRequest(f"payload_encoding is string or base64, not {encoding!r}")


def _properties(call: ManagementCall) -> Properties:
    """The properties; those that AMQP does not have are left out, as RabbitMQ does."""
    given = call.body["properties"]
    if given == []:  # what languages with one type for both call an empty object
        given = {}
    if not isinstance(given, dict):
        raise BadRequest("properties are an object of names and values")
    return Properties(**{name: _property(name, given[name]) for name in PROPERTIES if name in given})


def _property(name: str, value: Any) -> Any:
    """One property, of the type that AMQP has for it."""
    if name == "headers":
        if not isinstance(value, dict):
            raise BadRequest("headers are an object of names and values")
        return value
    if name in NUMBERS:
        if type(value) is not int or not 0 <= value <= NUMBERS[name]:
            raise BadRequest(f"{name} is a whole number from 0 to {NUMBERS[name]}")
        return value
    if not isinstance(value, str) or len(value.encode("utf-8", "replace")) > SHORT_BYTES_MAX:
        raise BadRequest(f"{name} is text of at most {SHORT_BYTES_MAX} bytes")
    return value


def _expiration_ms(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text) <= TIME_MS_MAX):
        raise BadRequest(f"expiration is a number of milliseconds as text, at most {TIME_MS_MAX}")
    return int(text)
