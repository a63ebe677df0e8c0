"""Connections, channels and consumers as operators see them, in RabbitMQ's words. All of it under the lock of the
runtime.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from leveret.core.jsonable import plain
from leveret.core.queue import Queue
from leveret.protocols.amqp.state import ConnectionState
from leveret.protocols.amqp.subscriber import Subscriber
from leveret.wire.replies import Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel
    from leveret.protocols.amqp.connection import AmqpConnection
    from leveret.protocols.amqp.hub import Hub

Row = dict[str, Any]
STILL = {"rate": 0.0}
# What channels count, and what it is called here.
COUNTED = {
    "received": "publishes",
    "received_confirm": "published",
    "confirmed": "confirmed",
    "dropped": "dropped",
    "returned": "returned",
    "empty_gets": "empty_gets",
    "acknowledged": "acks",
    "redelivered": "redeliveries",
}


class DescribedEntry(NamedTuple):
    """One of a list; its row is made when it is asked for."""

    name: str
    user: str
    vhost: str
    owner: str
    """The connection of a channel, the channel of a consumer."""
    row: Callable[[], Row]


class Description:
    """Tells who is connected to a hub."""

    def __init__(self, hub: Hub, node: str) -> None:
        """`node` is what this process is called."""
        self._hub = hub
        self._node = node

    def connections(self) -> list[DescribedEntry]:
        return [
            DescribedEntry(each.name, each.user_name, each.vhost, "", partial(self._connection, each))
            for each in self._open()
        ]

    def channels(self) -> list[DescribedEntry]:
        return [
            DescribedEntry(channel_name(each), owner.user_name, owner.vhost, owner.name, partial(self._channel, each))
            for owner in self._open()
            for _, each in sorted(owner.channels.items())
        ]

    def consumers(self) -> list[DescribedEntry]:
        return [
            DescribedEntry(each.tag, owner.user_name, owner.vhost, channel_name(channel), partial(self._consumer, each))
            for owner in self._open()
            for _, channel in sorted(owner.channels.items())
            for each in channel.subscribers.values()
        ]

    def consumers_of(self, queue: Queue) -> list[Row]:
        return [self._consumer(each) for each in queue.consumers or () if isinstance(each, Subscriber)]

    def holder(self, consumer: object) -> Row | None:
        """Who a consumer of the core is; None: none of these."""
        if not isinstance(consumer, Subscriber):
            return None
        row = self._consumer(consumer)
        return {**row["channel_details"], "channel": row["channel_details"]["name"], "name": row["consumer_tag"]}

    def counts(self) -> dict[str, int]:
        connections = [each for each in self._hub.connections if each.state is ConnectionState.RUNNING]
        channels = [channel for each in connections for channel in each.channels.values()]
        consumers = sum(each.consumer_count for each in channels)
        return {"connections": len(connections), "channels": len(channels), "consumers": consumers}

    def churn(self) -> dict[str, int]:
        running = self.counts()
        found: dict[str, int] = {}
        for kind, opened in self._hub.opened.items():
            found |= {f"{kind}_created": opened, f"{kind}_closed": max(0, opened - running[f"{kind}s"])}
        return found

    def traffic(self) -> dict[str, int]:
        """What all channels have done, those too that are closed."""
        return self._hub.traffic.of(self._hub.connections)

    def close(self, name: str, reason: str) -> bool:
        for connection in self._open():
            if connection.name == name:
                connection.ask_close(Reply.CONNECTION_FORCED, f"CONNECTION_FORCED - {reason}")
                return True
        return False

    def _open(self) -> list[AmqpConnection]:
        found = [each for each in self._hub.connections if each.state is ConnectionState.RUNNING]
        return sorted(found, key=lambda each: (each.since_ms, each.name))

    def _connection(self, connection: AmqpConnection) -> Row:
        peer = connection.peer
        return {
            "name": connection.name,
            "node": self._node,
            "type": "network",
            "protocol": "AMQP 0-9-1",
            "state": "blocked" if connection.blocked else "running",
            "user": connection.user_name,
            "user_who_performed_action": connection.user_name,
            "user_provided_name": plain(connection.client_properties.get("connection_name")),
            "vhost": connection.vhost,
            "auth_mechanism": connection.mechanism,
            "client_properties": plain(connection.client_properties),
            "connected_at": connection.since_ms,
            "host": connection.local[0],
            "port": connection.local[1],
            "peer_host": peer.host,
            "peer_port": peer.port,
            "peer_cert_subject": peer.certificate_name,
            "peer_cert_issuer": None,
            "peer_cert_validity": None,
            "ssl": peer.tls,
            **dict.fromkeys(("ssl_protocol", "ssl_cipher", "ssl_hash", "ssl_key_exchange")),
            "channels": len(connection.channels),
            "channel_max": connection.reader.channel_max,
            "frame_max": connection.reader.frame_max,
            "timeout": connection.heartbeat_ms // 1_000,
            "recv_oct": connection.received_bytes,
            "recv_cnt": connection.received_count,
            "send_oct": connection.sent_bytes,
            "send_cnt": connection.sent_count,
            "send_pend": connection.outlet.pending_bytes,
            "recv_oct_details": STILL,
            "send_oct_details": STILL,
        }

    def _channel(self, channel: Channel) -> Row:
        connection, transaction = channel.connection, channel.transaction
        delivered = channel.last_tag - channel.gets
        counts = {"publish": channel.publishes, "deliver": delivered, "deliver_get": channel.last_tag}
        counts |= {"get": channel.gets, "ack": channel.acks}
        counts |= {"confirm": channel.confirmed, "redeliver": channel.redeliveries}
        publishes, settlements = (0, 0) if transaction is None else transaction.counts
        return {
            "name": channel_name(channel),
            "number": channel.number,
            "node": self._node,
            "state": "closing" if channel.deaf else "running",
            "user": connection.user_name,
            "user_who_performed_action": connection.user_name,
            "vhost": connection.vhost,
            "connection_details": {
                "name": connection.name,
                "peer_host": connection.peer.host,
                "peer_port": connection.peer.port,
            },
            "confirm": channel.confirming,
            "transactional": transaction is not None,
            "consumer_count": channel.consumer_count,
            "prefetch_count": channel.consumer_prefetch,
            "global_prefetch_count": channel.prefetch,
            "messages_unacknowledged": channel.unacked_count,
            "messages_unconfirmed": channel.published - channel.confirmed,
            "messages_uncommitted": publishes,
            "acks_uncommitted": settlements,
            "message_stats": {**counts, **{f"{name}_details": STILL for name in counts}},
        }

    def _consumer(self, subscriber: Subscriber) -> Row:
        queue, channel = cast("Queue", subscriber.queue), cast("Channel", subscriber.channel)
        connection = channel.connection
        active = queue.active is None or queue.active is subscriber
        single = "single_active" if queue.active is subscriber else "waiting"
        return {
            "consumer_tag": subscriber.tag,
            "queue": {"name": queue.name, "vhost": queue.vhost},
            "ack_required": not subscriber.no_ack,
            "active": active,
            "activity_status": "up" if queue.active is None else single,
            "exclusive": subscriber.exclusive,
            "prefetch_count": subscriber.prefetch,
            "last_activity_at": subscriber.active_ms,
            "arguments": {"x-priority": subscriber.priority} if subscriber.priority else {},
            "channel_details": {
                "name": channel_name(channel),
                "number": channel.number,
                "node": connection.entrance or self._node,
                "user": connection.user_name,
                "connection_name": connection.name,
                "peer_host": connection.peer.host,
                "peer_port": connection.peer.port,
            },
        }


def channel_name(channel: Channel) -> str:
    """What operators call a channel."""
    return f"{channel.connection.name} ({channel.number})"


class TrafficCounts:
    """The counters of channels that are gone; and of all, with those that are there."""

    def __init__(self) -> None:
        self._gone: Counter[str] = Counter(dict.fromkeys(COUNTED, 0))

    def keep(self, channel: Channel) -> None:
        for name, attribute in COUNTED.items():
            self._gone[name] += getattr(channel, attribute)

    def of(self, connections: Iterable[AmqpConnection]) -> dict[str, int]:
        """What was counted so far, and what the channels have before them now."""
        channels = [channel for each in connections for channel in each.channels.values()]
        found = {
            name: self._gone[name] + sum(getattr(channel, attribute) for channel in channels)
            for name, attribute in COUNTED.items()
        }
        found["unacked"] = sum(channel.unacked_count for channel in channels)
        found["unconfirmed"] = sum(channel.published - channel.confirmed for channel in channels)
        found["publishers"] = sum(channel.publishes > 0 for channel in channels)
        return found
