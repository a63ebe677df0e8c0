"""Figures of the whole broker: first those under RabbitMQ's names, so that its dashboards find them, then our own.

Of a Redis, of PostgreSQL and of a cluster nothing is said where there is none.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from leveret.core.histogram import Histogram
from leveret.core.outcomes import DEATHS
from leveret.observability.exposition import EDGES_OF_COUNTS, EDGES_S_OF_MS, EDGES_S_OF_US, Labels, labels
from leveret.protocols.management.context import API_VERSION, PRODUCT
from leveret.protocols.metrics.facts import ScrapeFacts
from leveret.protocols.metrics.figure import BrokerMetric, Times, Told, figure
from leveret.protocols.net.admission import ConnectionBudget
from leveret.runtime.shared.keys import USES
from leveret.runtime.stats import POSTGRES

if TYPE_CHECKING:
    from leveret.runtime.shared.redis import Redis

BY_AMQP = labels(protocol="amqp091")
TYPES = {kind: labels(queue_type=f"rabbit_{kind}_queue") for kind in ("classic", "quorum", "stream")}


def by_amqp(name: str, help: str, counter: str) -> BrokerMetric:
    """What channels have done."""
    return figure(f"rabbitmq_global_{name}_total", f"{help}, by AMQP", lambda facts: {BY_AMQP: facts.traffic[counter]})


def by_type(name: str, help: str, counter: str) -> BrokerMetric:
    """What was counted in queues, by their type."""

    def told(facts: ScrapeFacts) -> dict[Labels, int]:
        return {TYPES[kind]: counts[counter] for kind, counts in facts.by_type.items()}

    return figure(f"rabbitmq_global_{name}_total", help, told)


def died(reason: str) -> BrokerMetric:
    """What died in queues."""
    return by_type(f"messages_dead_lettered_{reason}", f"Messages that died: {reason}", reason)


GLOBAL = (
    by_amqp("messages_received", "Messages published", "received"),
    by_amqp("messages_received_confirm", "Messages published on channels with confirms", "received_confirm"),
    by_amqp("messages_confirmed", "Messages confirmed, or refused, to their publishers", "confirmed"),
    by_amqp("messages_unroutable_dropped", "Messages that no queue wanted", "dropped"),
    by_amqp("messages_unroutable_returned", "Messages returned because no queue wanted them", "returned"),
    by_amqp("messages_get_empty", "basic.get from an empty queue", "empty_gets"),
    by_type("messages_routed", "Messages that came into queues", "published"),
    by_type("messages_delivered", "Messages handed out", "delivered"),
    by_type(
        "messages_delivered_consume_manual_ack", "Messages pushed to consumers that acknowledge", "pushed_unsettled"
    ),
    by_type(
        "messages_delivered_consume_auto_ack", "Messages pushed to consumers that do not acknowledge", "pushed_settled"
    ),
    by_type(
        "messages_delivered_get_manual_ack",
        "Messages taken one by one, to be acknowledged: basic.get, SQS, REST",
        "taken_unsettled",
    ),
    by_type("messages_delivered_get_auto_ack", "Messages taken by basic.get without acknowledgements", "taken_settled"),
    by_type("messages_redelivered", "Messages handed out again", "redelivered"),
    by_type("messages_acknowledged", "Messages acknowledged", "acked"),
    *map(died, DEATHS),
    figure("rabbitmq_global_publishers", "Channels that have published", lambda f: {BY_AMQP: f.traffic["publishers"]}),
    figure("rabbitmq_global_consumers", "Consumers now", lambda f: {BY_AMQP: f.objects["consumers"]}),
)
# What older dashboards of RabbitMQ look at: the same without labels.
CHANNELS = (
    figure("rabbitmq_channel_messages_published_total", "Messages published", "traffic.received"),
    figure("rabbitmq_channel_messages_confirmed_total", "Messages confirmed, or refused", "traffic.confirmed"),
    figure("rabbitmq_channel_messages_unroutable_dropped_total", "Messages that no queue wanted", "traffic.dropped"),
    figure("rabbitmq_channel_messages_unroutable_returned_total", "Messages returned", "traffic.returned"),
    figure("rabbitmq_channel_messages_acked_total", "Messages acknowledged", "traffic.acknowledged"),
    figure("rabbitmq_channel_messages_redelivered_total", "Messages handed out again", "traffic.redelivered"),
    figure(
        "rabbitmq_channel_messages_delivered_total", "Messages pushed, not to be acknowledged", "counted.pushed_settled"
    ),
    figure(
        "rabbitmq_channel_messages_delivered_ack_total",
        "Messages pushed, to be acknowledged",
        "counted.pushed_unsettled",
    ),
    figure("rabbitmq_channel_get_total", "Messages taken one by one, not to be acknowledged", "counted.taken_settled"),
    figure(
        "rabbitmq_channel_get_ack_total", "Messages taken one by one, to be acknowledged", "counted.taken_unsettled"
    ),
    figure("rabbitmq_channel_get_empty_total", "basic.get from an empty queue", "traffic.empty_gets"),
    figure("rabbitmq_channel_consumers", "Consumers on channels", "objects.consumers"),
    figure("rabbitmq_channel_messages_unacked", "Messages given to channels and not settled", "traffic.unacked"),
    figure(
        "rabbitmq_channel_messages_unconfirmed",
        "Messages published on channels and not confirmed",
        "traffic.unconfirmed",
    ),
)
QUEUES = (
    figure("rabbitmq_queue_messages_ready", "Messages that wait to be taken", "held.ready"),
    figure("rabbitmq_queue_messages_unacked", "Messages taken and not settled", "held.leased"),
    figure("rabbitmq_queue_messages", "Messages that wait or are taken", lambda f: f.held["ready"] + f.held["leased"]),
    figure("rabbitmq_queue_messages_ready_bytes", "Bodies that wait", "held.ready_bytes"),
    figure("rabbitmq_queue_consumers", "Consumers on queues", "held.consumers"),
    figure("rabbitmq_queue_messages_published_total", "Messages that came into queues", "counted.published"),
)


def build(facts: ScrapeFacts) -> dict[Labels, int]:
    """Which versions these are."""
    python = platform.python_version()
    return {
        labels(
            rabbitmq_version=API_VERSION,
            erlang_version=f"none: Python {python}",
            prometheus_plugin_version=facts.process.version,
            prometheus_client_version="none",
            product_name=PRODUCT,
            product_version=facts.process.version,
        ): 1
    }


def identity(facts: ScrapeFacts) -> dict[Labels, int]:
    """Who this is: other metrics are joined with it by dashboards."""
    return {
        labels(
            rabbitmq_node=facts.process.node,
            rabbitmq_cluster=facts.cluster,
            rabbitmq_cluster_permanent_id=f"leveret-{facts.tag:016x}",
        ): 1
    }


def alarmed(facts: ScrapeFacts, what: str) -> int:
    """Whether publishers are blocked because there is too little of something."""
    return int(what in (facts.process.alarm() or ""))


PROCESS = (
    figure("rabbitmq_build_info", "RabbitMQ whose API this is, and versions of ours", build),
    figure("rabbitmq_identity_info", "Node and cluster", identity),
    figure("rabbitmq_process_resident_memory_bytes", "Memory used", "memory_bytes"),
    figure(
        "rabbitmq_resident_memory_limit_bytes", "Memory over which publishers are blocked", "process.memory_bytes_max"
    ),
    figure("rabbitmq_disk_space_available_bytes", "Free disk space", "free_bytes"),
    figure(
        "rabbitmq_disk_space_available_limit_bytes",
        "Free disk space below which publishers are blocked",
        "process.free_bytes_min",
    ),
    figure(
        "rabbitmq_alarms_memory_used_watermark",
        "1 while publishers are blocked for want of memory",
        lambda f: alarmed(f, "memory"),
    ),
    figure(
        "rabbitmq_alarms_free_disk_space_watermark",
        "1 while publishers are blocked for want of disk space",
        lambda f: alarmed(f, "disk"),
    ),
    figure("rabbitmq_process_open_fds", "Open files and sockets", "files"),
    figure("rabbitmq_process_max_fds", "Open files that there may be", "process.files_max"),
    figure("rabbitmq_process_open_tcp_sockets", "Open AMQP sockets", "objects.connections"),
    figure("rabbitmq_process_max_tcp_sockets", "Open sockets that there may be", "process.files_max"),
    figure("process_resident_memory_bytes", "Memory used", "memory_bytes"),
    figure("process_open_fds", "Open files and sockets", "files"),
    figure("process_max_fds", "Open files that there may be", "process.files_max"),
    figure("process_cpu_seconds_total", "CPU time used", lambda f: round(f.cpu_s, 3)),
    figure(
        "process_start_time_seconds",
        "When the server was started, in seconds since 1970",
        lambda f: f.process.started_ms / 1_000,
    ),
)
OBJECTS = (
    figure("rabbitmq_connections", "Connections now", "objects.connections"),
    figure("rabbitmq_channels", "Channels now", "objects.channels"),
    figure("rabbitmq_consumers", "Consumers now", "objects.consumers"),
    figure("rabbitmq_queues", "Queues now", "objects.queues"),
    figure("rabbitmq_connections_opened_total", "Connections opened", "churn.connection_created"),
    figure("rabbitmq_connections_closed_total", "Connections closed", "churn.connection_closed"),
    figure("rabbitmq_channels_opened_total", "Channels opened", "churn.channel_created"),
    figure("rabbitmq_channels_closed_total", "Channels closed", "churn.channel_closed"),
    figure("rabbitmq_queues_declared_total", "Queues declared", "churn.queue_declared"),
    figure("rabbitmq_queues_created_total", "Queues created", "churn.queue_created"),
    figure("rabbitmq_queues_deleted_total", "Queues deleted", "churn.queue_deleted"),
)
NODE = PROCESS + OBJECTS


def labelled(label: str, counts: Mapping[str, int | float]) -> dict[Labels, int | float]:
    """Numbers with one label; what is true is 1."""
    return {labels(**{label: value}): +count for value, count in counts.items()}


def by_priority(facts: ScrapeFacts, which: str = "by_priority") -> dict[Labels, int]:
    """What waits, or came, by its priority."""
    found: dict[int, int] = {}
    for tally in facts.tallies.values():
        for priority, count in getattr(tally, which).items():
            found[priority] = found.get(priority, 0) + count
    return {labels(priority=str(priority)): count for priority, count in sorted(found.items())}


def oldest_s(facts: ScrapeFacts) -> float:
    """How long the message waits that waits longest."""
    times = [tally.oldest_ms for tally in facts.tallies.values() if tally.oldest_ms is not None]
    return max(0, facts.now_ms - min(times)) / 1_000 if times else 0


def times(facts: ScrapeFacts, which: str) -> Times:
    """A histogram of all queues, those too that are gone."""
    together = Histogram()
    for tally in facts.tallies.values():
        together.add(getattr(tally, which))
    return Times(together, EDGES_S_OF_MS, 1_000)


def by_listener(of: Callable[[ConnectionBudget], int]) -> Callable[[ScrapeFacts], Told]:
    """A figure of the budget of each protocol."""
    return lambda facts: {labels(listener=each.listener): of(each) for each in facts.process.budgets}


def forwarded(facts: ScrapeFacts) -> Told:
    """Rows of the audit log for the collector, if there is one."""
    forwarder = facts.audit.forwarder
    return None if forwarder is None else labelled("outcome", {"sent": forwarder.sent, "dropped": forwarder.dropped})


LISTENERS = (
    figure(
        "leveret_listener_connections",
        "Connections of a protocol, counted against connections_max",
        by_listener(lambda budget: budget.connections),
    ),
    figure(
        "leveret_listener_connections_half_open",
        "Connections that have not authenticated, counted against half_open_max",
        by_listener(lambda budget: budget.half_open),
    ),
    figure(
        "leveret_listener_connections_evicted_total",
        "Connections that had not authenticated and were closed for a newer one",
        by_listener(lambda budget: budget.evicted.count),
    ),
    figure(
        "leveret_listener_connections_refused_total",
        "Connections that were refused because a limit was reached",
        by_listener(lambda budget: budget.refused.count),
    ),
)

MESSAGES = (
    figure("leveret_messages_ready_by_priority", "Messages that wait, by priority", by_priority),
    figure(
        "leveret_messages_published_by_priority_total",
        "Messages that came into queues, by priority",
        lambda f: by_priority(f, "published_by_priority"),
    ),
    figure("leveret_messages_scheduled", "Messages that are not due yet", "held.scheduled"),
    figure(
        "leveret_messages_backing_off", "Messages that come back some time after a failed delivery", "held.backing_off"
    ),
    figure("leveret_leases", "Messages taken and not settled", "held.leased"),
    figure("leveret_oldest_message_age_seconds", "How long the first of all messages waits", oldest_s),
    figure(
        "leveret_waiting_seconds",
        "Time from when a message could be taken to its first delivery",
        lambda f: times(f, "waiting"),
        "histogram",
    ),
    figure(
        "leveret_processing_seconds",
        "Time from the delivery of a message to its acknowledgement or rejection",
        lambda f: times(f, "processing"),
        "histogram",
    ),
    figure(
        "leveret_dead_letters_total",
        "Messages that died, by reason",
        lambda f: labelled("reason", {reason: f.counted[reason] for reason in DEATHS}),
    ),
    figure(
        "leveret_deliveries_failed_total",
        "Deliveries nacked, rejected or timed out",
        lambda f: sum(f.counted[name] for name in ("nacked", "timed_out", "rejected")),
    ),
    figure("leveret_publishes_refused_total", "Messages that a full queue refused", "counted.refused"),
    figure("leveret_rate_limited_requests_total", "Requests over HTTP refused with 429", "limited"),
    figure(
        "leveret_spans_total",
        "Spans of traced messages, by outcome; avoided counts messages over tracing_rate_max",
        lambda f: labelled("outcome", f.spans),
    ),
)
STORAGE = (
    figure(
        "leveret_journal_sync_seconds",
        "Time of one fdatasync of the journal",
        lambda f: f.storage and Times(f.storage.sync_us, EDGES_S_OF_US, 1_000_000),
        "histogram",
    ),
    figure(
        "leveret_journal_commit_seconds",
        "Time for which the first publish or settlement of a commit waits to be durable, before it is confirmed",
        lambda f: f.storage and Times(f.storage.commit_us, EDGES_S_OF_US, 1_000_000),
        "histogram",
    ),
    figure(
        "leveret_journal_commit_entries",
        "Publishes, deliveries and settlements in a commit",
        lambda f: f.storage and Times(f.storage.batch_entries, EDGES_OF_COUNTS),
        "histogram",
    ),
    figure("leveret_journal_written_bytes_total", "Written to the journal", "storage.written_bytes"),
    figure("leveret_journal_unwritten_bytes", "Appended to the journal and not yet on disk", "storage.unwritten_bytes"),
    figure("leveret_journal_bytes", "Size of the journal on disk", "storage.log_bytes"),
    figure("leveret_journal_segments", "Segments of the journal", "storage.segments"),
    figure("leveret_journal_full", "1 while publishes are refused because the disk is nearly full", "storage.full"),
    figure("leveret_journal_replay_seconds", "Time of the last recovery", "storage.replay_s"),
    figure("leveret_history_bytes", "Size of the history that is kept for the pipeline", "storage.history_bytes"),
    figure("leveret_history_segments", "Segments of that history", "storage.history_segments"),
    figure(
        "leveret_history_begins_seconds",
        "Time from which on history is complete; 0 when nothing was removed",
        "storage.history_begins_s",
    ),
    figure(
        "leveret_history_dropped_segments_total",
        "Segments of history that its age, its size or a full disk removed",
        "storage.history_dropped",
    ),
    figure(
        "leveret_history_dropped_events_total",
        "Events that are not in history, because the disk did not keep up",
        "storage.events_dropped",
    ),
    figure("leveret_archive_bytes", "Size of the archive of segments, if there is one", "storage.archive_bytes"),
)
STREAMS = (
    figure("leveret_stream_messages", "Messages in all streams", "streams.messages"),
    figure("leveret_stream_bytes", "Size of all streams", "streams.bytes"),
    figure("leveret_stream_segments", "Segments of all streams", "streams.segments"),
    figure("leveret_stream_group_lag", "Messages of a stream that a consumer group has yet to read", "streams.lags"),
)
ALERTS = (
    figure(
        "leveret_alerts_firing",
        "Alerts of the broker itself that are firing, by rule",
        lambda f: labelled("rule", f.alerts),
    ),
)
SECURITY = (
    figure(
        "leveret_audit_rows_total",
        "Rows of the audit log since the start, by log; refusals that are counted are one row",
        lambda f: labelled("log", f.audit.counts()["rows"]),
    ),
    figure(
        "leveret_audit_rows_lost_total",
        "Rows of the audit log that the disk has not taken",
        lambda f: labelled("log", f.audit.counts()["lost"]),
    ),
    figure(
        "leveret_audit_forwarded_total",
        "Rows of the audit log for the collector, by outcome: sent, dropped; no sample without audit_forward",
        forwarded,
    ),
    figure(
        "leveret_audit_forward_waiting",
        "Rows of the audit log that wait for the collector; no sample without audit_forward",
        lambda f: None if f.audit.forwarder is None else len(f.audit.forwarder),
    ),
    figure(
        "leveret_tls_revocation_list_expiry_timestamp_seconds",
        "When the first revocation list of certificates expires (clients, links), in seconds since 1970",
        lambda f: labelled("of", {name: at_ms / 1_000 for name, at_ms in f.process.lists_end_ms().items()}) or None,
    ),
)
OWN = MESSAGES + LISTENERS + STORAGE + STREAMS + ALERTS + SECURITY


def of_redis(name: str, help: str, of: Callable[[Redis], Told]) -> BrokerMetric:
    """A figure of the Redis that nodes share things by; nothing is said where there is none."""
    return figure(f"leveret_redis_{name}", help, lambda facts: None if facts.redis is None else of(facts.redis))


REDIS = (
    of_redis("up", "1 while the Redis that nodes share limits by answers; no sample without one", lambda r: int(r.up)),
    of_redis("errors_total", "Times that Redis did not answer, or with an error", lambda r: r.errors),
    of_redis("connections", "Connections to Redis", lambda r: r.connections[0]),
    of_redis("connections_in_use", "Those with a round trip under way", lambda r: r.connections[1]),
    of_redis("waits_total", "Questions that waited for the round trip of others", lambda r: r.waits),
    of_redis("reconnects_total", "Times that Redis answered again after it had been away", lambda r: r.reconnects),
    of_redis(
        "fallbacks_total",
        "What a node decided alone while Redis was away, by use",
        lambda r: labelled("use", {use: r.fallbacks[use] for use in USES}),
    ),
)


def of_postgres(name: str, help: str, of: Callable[[], int]) -> BrokerMetric:
    """A figure of the connections to PostgreSQL; nothing is said where there is none."""
    return figure(f"leveret_postgres_{name}", help, lambda facts: of() if POSTGRES.used else None)


POSTGRES_FIGURES: tuple[BrokerMetric, ...] = (
    of_postgres("connections", "Connections to PostgreSQL; no sample without a store there", lambda: POSTGRES.open),
    of_postgres("connections_in_use", "Those with a statement under way", lambda: POSTGRES.in_use),
    of_postgres("waits_total", "Statements that waited for another one on their connection", lambda: POSTGRES.waits),
    of_postgres("reconnects_total", "Connections that replaced a lost one", lambda: POSTGRES.reconnects),
    of_postgres("errors_total", "Errors of PostgreSQL, or of the way to it", lambda: POSTGRES.errors),
)


def of_node(name: str, help: str, of: str | Callable[[dict[str, Any]], Told]) -> BrokerMetric:
    """A row of the table; a key is that of a number which the node tells of itself."""
    return figure(
        f"leveret_cluster_{name}", help, f"part.{of}" if isinstance(of, str) else lambda facts: of(facts.part)
    )


def link_bytes(part: dict[str, Any]) -> Told:
    """What has passed on links."""
    return {labels(peer=peer, direction=way): count for (peer, way), count in sorted(part["link_bytes"].items())}


CLUSTER = (
    of_node("shards", "Shards that this node has", "shards"),
    of_node("shards_vacant", "Shards without an owner, as this node sees it", "vacant"),
    of_node("takeovers_total", "Shards that this node has taken over", "takeovers"),
    of_node("takeovers_failed_total", "Shards that it could not take", "takeovers_failed"),
    of_node("takeover_seconds_total", "Time of all takeovers that were made", lambda p: p["takeover_ms"] / 1_000),
    of_node("shards_lost_total", "Shards lost to a higher epoch", "shards_lost"),
    of_node("link_up", "1 while another node can be reached", lambda p: labelled("peer", p["links"])),
    of_node("link_bytes_total", "Bytes between this node and another, by direction", link_bytes),
    of_node("requests_forwarded_total", "Requests over HTTP sent to other nodes", "forwarded"),
    of_node("catalog_version", "Version of the definitions that this node has", "definitions"),
    of_node("outbox_messages", "Messages on their way to other shards", "outbox"),
    of_node("outbox_oldest_seconds", "Age of the oldest of them", lambda p: p["outbox_oldest_ms"] / 1_000),
    of_node("outbox_stuck", "Shards and queues that take none of them now", "outbox_stuck"),
    of_node("etcd_trouble", "1 while etcd does not renew the lease of this node", "etcd_trouble"),
    of_node("store_trouble", "1 while PostgreSQL does not take what a shard writes", "store_trouble"),
    of_node(
        "definitions_trouble",
        "1 while the definitions of this node may be old, and its clients wait",
        "definitions_trouble",
    ),
    of_node("shards_doubtful", "Shards of this node with queues that older definitions do not know", "doubtful"),
)
