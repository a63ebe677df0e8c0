"""Figures of a node of a cluster: what it has of it, and what it cannot reach. A single server has none of them."""

from collections.abc import Callable
from typing import Any

from leveret.observability.exposition import Kind, labels
from leveret.protocols.metrics.figure import BrokerMetric, Told, figure


def of_node(name: str, kind: Kind, help: str, of: Callable[[dict[str, Any]], Told]) -> BrokerMetric:
    """A row of the table."""
    return figure(f"leveret_cluster_{name}", kind, help, lambda facts: of(facts.part))


def links(part: dict[str, Any]) -> Told:
    """Whether each other node can be reached."""
    return {labels(peer=name): int(up) for name, up in part["links"].items()}


def link_bytes(part: dict[str, Any]) -> Told:
    """What has passed on links."""
    return {labels(peer=peer, direction=way): count for (peer, way), count in sorted(part["link_bytes"].items())}


CLUSTER = (
    of_node("shards", "gauge", "Shards that this node has", lambda p: p["shards"]),
    of_node("shards_vacant", "gauge", "Shards without an owner, as this node sees it", lambda p: p["vacant"]),
    of_node("takeovers_total", "counter", "Shards that this node has taken over", lambda p: p["takeovers"]),
    of_node("takeovers_failed_total", "counter", "Shards that it could not take", lambda p: p["takeovers_failed"]),
    of_node(
        "takeover_seconds_total", "counter", "Time of all takeovers that were made", lambda p: p["takeover_ms"] / 1_000
    ),
    of_node("shards_lost_total", "counter", "Shards lost to a higher epoch", lambda p: p["shards_lost"]),
    of_node("link_up", "gauge", "1 while another node can be reached", links),
    of_node("link_bytes_total", "counter", "Bytes between this node and another, by direction", link_bytes),
    of_node("requests_forwarded_total", "counter", "Requests over HTTP sent to other nodes", lambda p: p["forwarded"]),
    of_node("catalog_version", "gauge", "Version of the definitions that this node has", lambda p: p["definitions"]),
    of_node("outbox_messages", "gauge", "Messages on their way to other shards", lambda p: p["outbox"]),
    of_node("outbox_oldest_seconds", "gauge", "Age of the oldest of them", lambda p: p["outbox_oldest_ms"] / 1_000),
    of_node("outbox_stuck", "gauge", "Shards and queues that take none of them now", lambda p: p["outbox_stuck"]),
    of_node("etcd_trouble", "gauge", "1 while etcd does not renew the lease of this node", lambda p: p["etcd_trouble"]),
    of_node(
        "store_trouble",
        "gauge",
        "1 while PostgreSQL does not take what a shard writes",
        lambda p: p["store_trouble"],
    ),
    of_node(
        "definitions_trouble",
        "gauge",
        "1 while the definitions of this node may be old, and its clients wait",
        lambda p: p["definitions_trouble"],
    ),
    of_node(
        "shards_doubtful",
        "gauge",
        "Shards of this node with queues that older definitions do not know",
        lambda p: p["doubtful"],
    ),
)
