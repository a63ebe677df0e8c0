"""Figures of each connection and channel, from the rows that the management API shows of them."""

from operator import itemgetter
from typing import Any

from leveret.observability.exposition import Kind, Labels, labels
from leveret.protocols.metrics.figure import ObjectMetric, column

Row = dict[str, Any]


def cell(name: str, kind: Kind, help: str, key: str) -> ObjectMetric:
    """What stands in a row."""
    return column(name, kind, help, lambda rows: list(map(itemgetter(key), rows)))


def connection_labels(row: Row) -> Labels:
    """How a connection is named in a sample."""
    return labels(connection=row["name"], vhost=row["vhost"])


def channel_labels(row: Row) -> Labels:
    """How a channel is named in a sample."""
    return labels(channel=row["name"], vhost=row["vhost"])


CONNECTIONS_COARSE = (
    cell("rabbitmq_connection_incoming_bytes_total", "counter", "Bytes received on a connection", "recv_oct"),
    cell("rabbitmq_connection_outgoing_bytes_total", "counter", "Bytes sent on a connection", "send_oct"),
)
CONNECTIONS = (
    cell("rabbitmq_connection_incoming_packets_total", "counter", "Times that something was received", "recv_cnt"),
    cell("rabbitmq_connection_outgoing_packets_total", "counter", "Times that something was sent", "send_cnt"),
    cell("leveret_connection_pending_bytes", "gauge", "Bytes that the client has yet to read", "send_pend"),
    cell("rabbitmq_connection_channels", "gauge", "Channels of a connection", "channels"),
)
CHANNELS = (
    cell("rabbitmq_channel_consumers", "gauge", "Consumers on a channel", "consumer_count"),
    cell(
        "rabbitmq_channel_messages_unacked",
        "gauge",
        "Messages given to a channel, not settled",
        "messages_unacknowledged",
    ),
    cell(
        "rabbitmq_channel_messages_unconfirmed", "gauge", "Messages published and not confirmed", "messages_unconfirmed"
    ),
    cell("rabbitmq_channel_messages_uncommitted", "gauge", "Publishes in an open transaction", "messages_uncommitted"),
    cell("rabbitmq_channel_acks_uncommitted", "gauge", "Settlements in an open transaction", "acks_uncommitted"),
    cell(
        "rabbitmq_channel_prefetch", "gauge", "Messages that consumers of a channel may hold", "global_prefetch_count"
    ),
)
