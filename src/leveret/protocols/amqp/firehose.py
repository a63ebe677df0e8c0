"""The firehose of a virtual host: copies of what its clients publish and get, for the exchange amq.rabbitmq.trace.

    publish.EXCHANGE    before the message is routed      routed_queues
    deliver.QUEUE       basic.deliver and basic.get-ok    redelivered

A copy has the body of the message, and all else of it in headers, as RabbitMQ has them. It is transient, sent at most
once, and not traced itself. One that cannot be published does not hold up the message: the log tells.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from leveret.core.deadletter import all_keys
from leveret.core.errors import JournalFailed
from leveret.core.filters import BLOB
from leveret.core.message import Message
from leveret.core.names import NAME_BYTES_MAX
from leveret.core.properties import Properties, content
from leveret.core.queue import Queue
from leveret.core.tables import Long
from leveret.core.topology import TRACE_EXCHANGE
from leveret.observability.logs import Log

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel

FIELDS = tuple(each.name for each in fields(Properties))
INT_MAX = 2**31 - 1
LOST = Log("amqp").limited("message could not be traced")


def trace_publish(
    channel: Channel, exchange: str, key: str, properties: Properties, body: bytes, queues: list[Queue]
) -> None:
    """Copy a message that a client publishes."""
    keys = all_keys(properties, key)
    routed = [queue.name for queue in queues] if exchange else keys  # RabbitMQ does not look for those, either
    _send(channel, f"publish.{exchange}", exchange, keys, properties, body, {"routed_queues": routed})


def trace_delivery(channel: Channel, queue: str, redelivered: bool, message: Message) -> None:
    """Copy a message that a client gets."""
    if message.exchange == TRACE_EXCHANGE:
        return
    bodies = channel.hub.bodies
    body = bodies.get(message.body) if bodies is not None and message.flags & BLOB else message.body
    properties = message.properties
    keys = all_keys(properties, message.routing_key)
    extra = {"redelivered": int(redelivered)}
    _send(channel, f"deliver.{queue}", message.exchange, keys, properties, body or b"", extra)


def _send(
    channel: Channel,
    key: str,
    exchange: str,
    keys: list[str],
    properties: Properties,
    body: bytes,
    extra: dict[str, Any],
) -> None:
    key = key.encode("utf-8", "surrogateescape")[:NAME_BYTES_MAX].decode("utf-8", "ignore")
    try:
        if not channel.virtual_host.route(TRACE_EXCHANGE, [key]):
            return
        headers = {
            "exchange_name": exchange,
            "routing_keys": keys,
            "properties": _table(properties),
            "node": channel.hub.node,
            **extra,
            "vhost": channel.vhost,
            "connection": channel.connection.name,
            "channel": channel.number,
            "user": channel.connection.user_name,
        }
        if len(body) > channel.hub.limits.blob_bytes:
            headers["body_bytes"] = Long(len(body))
            body = b""
        channel.send_trace(key, *content(Properties(headers=headers), body))
    except JournalFailed:
        raise
    except Exception as error:  # whatever is wrong with a copy, its message goes on
        LOST.note(vhost=channel.vhost, key=key, reason=error)


def _table(properties: Properties) -> dict[str, Any]:
    """The properties that are set; of the headers all but BCC, which no queue gets."""
    told = {name: value for name in FIELDS if (value := getattr(properties, name)) is not None}
    if "headers" in told:
        told["headers"] = {name: value for name, value in told["headers"].items() if name != "BCC"}
    if told.get("timestamp", 0) > INT_MAX:
        told["timestamp"] = Long(told["timestamp"])
    return told
