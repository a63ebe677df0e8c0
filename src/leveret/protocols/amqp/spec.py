"""Every method of AMQP 0-9-1 with RabbitMQ's extensions: ids, arguments with their types, and what answers it.

This table is the only place that knows them. `python -m leveret.protocols.amqp.generate` writes methods.py from it.
A name that begins with an underscore is reserved: zeros when written, skipped when read.
"""

from typing import NamedTuple


class MethodArgument(NamedTuple):
    """One argument of a method; kind is octet, short, long, longlong, bit, shortstr, longstr or table."""

    name: str
    kind: str


class MethodSpec(NamedTuple):
    """One method; replies are what may answer it, none if it is asynchronous."""

    class_id: int
    method_id: int
    name: str
    arguments: tuple[MethodArgument, ...]
    replies: tuple[str, ...]
    has_content: bool

    @property
    def class_name(self) -> str:
        """The name of its Python class: basic.get-ok is BasicGetOk."""
        return "".join(word.capitalize() for word in self.name.replace("-", ".").split("."))


# class id, method id, name, arguments, replies
_TABLE = (
    (
        *(10, 10, "connection.start"),
        "version_major octet, version_minor octet, server_properties table, mechanisms longstr, locales longstr",
        "connection.start-ok",
    ),
    (
        *(10, 11, "connection.start-ok"),
        "client_properties table, mechanism shortstr, response longstr, locale shortstr",
        "",
    ),
    (10, 20, "connection.secure", "challenge longstr", "connection.secure-ok"),
    (10, 21, "connection.secure-ok", "response longstr", ""),
    (10, 30, "connection.tune", "channel_max short, frame_max long, heartbeat short", "connection.tune-ok"),
    (10, 31, "connection.tune-ok", "channel_max short, frame_max long, heartbeat short", ""),
    (10, 40, "connection.open", "virtual_host shortstr, _capabilities shortstr, _insist bit", "connection.open-ok"),
    (10, 41, "connection.open-ok", "_known_hosts shortstr", ""),
    (
        *(10, 50, "connection.close"),
        "reply_code short, reply_text shortstr, class_id short, method_id short",
        "connection.close-ok",
    ),
    (10, 51, "connection.close-ok", "", ""),
    (10, 60, "connection.blocked", "reason shortstr", ""),
    (10, 61, "connection.unblocked", "", ""),
    (10, 70, "connection.update-secret", "new_secret longstr, reason shortstr", "connection.update-secret-ok"),
    (10, 71, "connection.update-secret-ok", "", ""),
    (20, 10, "channel.open", "_out_of_band shortstr", "channel.open-ok"),
    (20, 11, "channel.open-ok", "_channel_id longstr", ""),
    (20, 20, "channel.flow", "active bit", "channel.flow-ok"),
    (20, 21, "channel.flow-ok", "active bit", ""),
    (
        *(20, 40, "channel.close"),
        "reply_code short, reply_text shortstr, class_id short, method_id short",
        "channel.close-ok",
    ),
    (20, 41, "channel.close-ok", "", ""),
    (
        *(30, 10, "access.request"),
        "realm shortstr, exclusive bit, passive bit, active bit, write bit, read bit",
        "access.request-ok",
    ),
    (30, 11, "access.request-ok", "ticket short", ""),
    (
        *(40, 10, "exchange.declare"),
        "_ticket short, exchange shortstr, type shortstr, passive bit, durable bit, auto_delete bit, internal bit,"
        "nowait bit, arguments table",
        "exchange.declare-ok",
    ),
    (40, 11, "exchange.declare-ok", "", ""),
    (
        *(40, 20, "exchange.delete"),
        "_ticket short, exchange shortstr, if_unused bit, nowait bit",
        "exchange.delete-ok",
    ),
    (40, 21, "exchange.delete-ok", "", ""),
    (
        *(40, 30, "exchange.bind"),
        "_ticket short, destination shortstr, source shortstr, routing_key shortstr, nowait bit, arguments table",
        "exchange.bind-ok",
    ),
    (40, 31, "exchange.bind-ok", "", ""),
    (
        *(40, 40, "exchange.unbind"),
        "_ticket short, destination shortstr, source shortstr, routing_key shortstr, nowait bit, arguments table",
        "exchange.unbind-ok",
    ),
    (40, 51, "exchange.unbind-ok", "", ""),
    (
        *(50, 10, "queue.declare"),
        "_ticket short, queue shortstr, passive bit, durable bit, exclusive bit, auto_delete bit, nowait bit,"
        "arguments table",
        "queue.declare-ok",
    ),
    (50, 11, "queue.declare-ok", "queue shortstr, message_count long, consumer_count long", ""),
    (
        *(50, 20, "queue.bind"),
        "_ticket short, queue shortstr, exchange shortstr, routing_key shortstr, nowait bit, arguments table",
        "queue.bind-ok",
    ),
    (50, 21, "queue.bind-ok", "", ""),
    (50, 30, "queue.purge", "_ticket short, queue shortstr, nowait bit", "queue.purge-ok"),
    (50, 31, "queue.purge-ok", "message_count long", ""),
    (
        *(50, 40, "queue.delete"),
        "_ticket short, queue shortstr, if_unused bit, if_empty bit, nowait bit",
        "queue.delete-ok",
    ),
    (50, 41, "queue.delete-ok", "message_count long", ""),
    (
        *(50, 50, "queue.unbind"),
        "_ticket short, queue shortstr, exchange shortstr, routing_key shortstr, arguments table",
        "queue.unbind-ok",
    ),
    (50, 51, "queue.unbind-ok", "", ""),
    (60, 10, "basic.qos", "prefetch_size long, prefetch_count short, global_qos bit", "basic.qos-ok"),
    (60, 11, "basic.qos-ok", "", ""),
    (
        *(60, 20, "basic.consume"),
        "_ticket short, queue shortstr, consumer_tag shortstr, no_local bit, no_ack bit, exclusive bit, nowait bit,"
        "arguments table",
        "basic.consume-ok",
    ),
    (60, 21, "basic.consume-ok", "consumer_tag shortstr", ""),
    (60, 30, "basic.cancel", "consumer_tag shortstr, nowait bit", "basic.cancel-ok"),
    (60, 31, "basic.cancel-ok", "consumer_tag shortstr", ""),
    (
        *(60, 40, "basic.publish"),
        "_ticket short, exchange shortstr, routing_key shortstr, mandatory bit, immediate bit",
        "",
    ),
    (
        *(60, 50, "basic.return"),
        "reply_code short, reply_text shortstr, exchange shortstr, routing_key shortstr",
        "",
    ),
    (
        *(60, 60, "basic.deliver"),
        "consumer_tag shortstr, delivery_tag longlong, redelivered bit, exchange shortstr, routing_key shortstr",
        "",
    ),
    (60, 70, "basic.get", "_ticket short, queue shortstr, no_ack bit", "basic.get-ok basic.get-empty"),
    (
        *(60, 71, "basic.get-ok"),
        "delivery_tag longlong, redelivered bit, exchange shortstr, routing_key shortstr, message_count long",
        "",
    ),
    (60, 72, "basic.get-empty", "_cluster_id shortstr", ""),
    (60, 80, "basic.ack", "delivery_tag longlong, multiple bit", ""),
    (60, 90, "basic.reject", "delivery_tag longlong, requeue bit", ""),
    (60, 100, "basic.recover-async", "requeue bit", ""),
    (60, 110, "basic.recover", "requeue bit", "basic.recover-ok"),
    (60, 111, "basic.recover-ok", "", ""),
    (60, 120, "basic.nack", "delivery_tag longlong, multiple bit, requeue bit", ""),
    (85, 10, "confirm.select", "nowait bit", "confirm.select-ok"),
    (85, 11, "confirm.select-ok", "", ""),
    (90, 10, "tx.select", "", "tx.select-ok"),
    (90, 11, "tx.select-ok", "", ""),
    (90, 20, "tx.commit", "", "tx.commit-ok"),
    (90, 21, "tx.commit-ok", "", ""),
    (90, 30, "tx.rollback", "", "tx.rollback-ok"),
    (90, 31, "tx.rollback-ok", "", ""),
)
_WITH_CONTENT = {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


def _parsed(class_id: int, method_id: int, name: str, arguments: str, replies: str) -> MethodSpec:
    pairs = (pair.split() for pair in arguments.split(",") if pair)
    return MethodSpec(
        class_id,
        method_id,
        name,
        tuple(MethodArgument(argument, kind) for argument, kind in pairs),
        tuple(replies.split()),
        name in _WITH_CONTENT,
    )


METHODS = tuple(_parsed(*row) for row in _TABLE)
