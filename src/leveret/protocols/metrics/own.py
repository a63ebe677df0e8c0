"""Figures of the whole broker that RabbitMQ does not have."""

from collections.abc import Callable

from leveret.core.histogram import Histogram
from leveret.observability.exposition import EDGES_OF_COUNTS, EDGES_S_OF_MS, EDGES_S_OF_US, Labels, labels
from leveret.observability.statistics import DEATHS
from leveret.protocols.metrics.facts import ScrapeFacts
from leveret.protocols.metrics.figure import Times, Told, figure
from leveret.protocols.net.admission import ConnectionBudget


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


def dead(facts: ScrapeFacts) -> dict[Labels, int]:
    """What died, by its reason."""
    return {labels(reason=reason): facts.counted(reason) for reason in DEATHS}


def failed(facts: ScrapeFacts) -> int:
    """Deliveries that did not end in an acknowledgement."""
    return facts.counted("nacked") + facts.counted("timed_out") + facts.counted("rejected")


def sync_times(facts: ScrapeFacts) -> Told:
    """How long the disk took."""
    return None if facts.storage is None else Times(facts.storage.sync_us, EDGES_S_OF_US, 1_000_000)


def commit_sizes(facts: ScrapeFacts) -> Told:
    """How much went to the disk together."""
    return None if facts.storage is None else Times(facts.storage.batch_entries, EDGES_OF_COUNTS)


def stored(facts: ScrapeFacts, name: str) -> Told:
    """A figure of the journal, if there is one."""
    told: Told = None if facts.storage is None else getattr(facts.storage, name)
    return told


def lists_end(facts: ScrapeFacts) -> Told:
    """When revocation lists expire, if there are any."""
    return {labels(of=name): at_ms / 1_000 for name, at_ms in facts.process.lists_end_ms().items()} or None


def by_listener(of: Callable[[ConnectionBudget], int]) -> Callable[[ScrapeFacts], Told]:
    """A figure of the budget of each protocol."""
    return lambda facts: {labels(listener=each.listener): of(each) for each in facts.process.budgets}


def forwarded(facts: ScrapeFacts) -> Told:
    """Rows of the audit log for the collector, if there is one."""
    forwarder = facts.audit.forwarder
    if forwarder is None:
        return None
    return {labels(outcome="sent"): forwarder.sent, labels(outcome="dropped"): forwarder.dropped}


CONNECTIONS = (
    figure(
        "leveret_listener_connections",
        "gauge",
        "Connections of a protocol, counted against connections_max",
        by_listener(lambda budget: budget.connections),
    ),
    figure(
        "leveret_listener_connections_half_open",
        "gauge",
        "Connections that have not authenticated, counted against half_open_max",
        by_listener(lambda budget: budget.half_open),
    ),
    figure(
        "leveret_listener_connections_evicted_total",
        "counter",
        "Connections that had not authenticated and were closed for a newer one",
        by_listener(lambda budget: budget.evicted.count),
    ),
    figure(
        "leveret_listener_connections_refused_total",
        "counter",
        "Connections that were refused because a limit was reached",
        by_listener(lambda budget: budget.refused.count),
    ),
)

MESSAGES = (
    figure("leveret_messages_ready_by_priority", "gauge", "Messages that wait, by priority", by_priority),
    figure(
        "leveret_messages_published_by_priority_total",
        "counter",
        "Messages that came into queues, by priority",
        lambda f: by_priority(f, "published_by_priority"),
    ),
    figure("leveret_messages_scheduled", "gauge", "Messages that are not due yet", lambda f: f.sum("scheduled")),
    figure(
        "leveret_messages_backing_off",
        "gauge",
        "Messages that come back some time after a failed delivery",
        lambda f: f.sum("backing_off"),
    ),
    figure("leveret_leases", "gauge", "Messages taken and not settled", lambda f: f.sum("leased")),
    figure("leveret_oldest_message_age_seconds", "gauge", "How long the first of all messages waits", oldest_s),
    figure(
        "leveret_waiting_seconds",
        "histogram",
        "Time from when a message could be taken to its first delivery",
        lambda f: times(f, "waiting"),
    ),
    figure(
        "leveret_processing_seconds",
        "histogram",
        "Time from the delivery of a message to its acknowledgement or rejection",
        lambda f: times(f, "processing"),
    ),
    figure("leveret_dead_letters_total", "counter", "Messages that died, by reason", dead),
    figure("leveret_deliveries_failed_total", "counter", "Deliveries nacked, rejected or timed out", failed),
    figure(
        "leveret_publishes_refused_total",
        "counter",
        "Messages that a full queue refused",
        lambda f: f.counted("refused"),
    ),
    figure(
        "leveret_rate_limited_requests_total", "counter", "Requests over HTTP refused with 429", lambda f: f.limited
    ),
    figure(
        "leveret_spans_total",
        "counter",
        "Spans of traced messages, by outcome; avoided counts messages over tracing_rate_max",
        lambda f: {labels(outcome=outcome): count for outcome, count in f.spans.items()},
    ),
)
STORAGE = (
    figure("leveret_journal_sync_seconds", "histogram", "Time of one fdatasync of the journal", sync_times),
    figure(
        "leveret_journal_commit_entries", "histogram", "Publishes, deliveries and settlements in a commit", commit_sizes
    ),
    figure(
        "leveret_journal_written_bytes_total", "counter", "Written to the journal", lambda f: stored(f, "written_bytes")
    ),
    figure(
        "leveret_journal_unwritten_bytes",
        "gauge",
        "Appended to the journal and not yet on disk",
        lambda f: stored(f, "unwritten_bytes"),
    ),
    figure("leveret_journal_bytes", "gauge", "Size of the journal on disk", lambda f: stored(f, "log_bytes")),
    figure("leveret_journal_segments", "gauge", "Segments of the journal", lambda f: stored(f, "segments")),
    figure(
        "leveret_journal_full",
        "gauge",
        "1 while publishes are refused because the disk is nearly full",
        lambda f: None if f.storage is None else int(f.storage.full),
    ),
    figure("leveret_journal_replay_seconds", "gauge", "Time of the last recovery", lambda f: stored(f, "replay_s")),
    figure(
        "leveret_archive_bytes",
        "gauge",
        "Size of the archive of segments, if there is one",
        lambda f: stored(f, "archive_bytes"),
    ),
)
STREAMS = (
    figure("leveret_stream_messages", "gauge", "Messages in all streams", lambda f: f.streams.messages),
    figure("leveret_stream_bytes", "gauge", "Size of all streams", lambda f: f.streams.bytes),
    figure("leveret_stream_segments", "gauge", "Segments of all streams", lambda f: f.streams.segments),
    figure(
        "leveret_stream_group_lag",
        "gauge",
        "Messages of a stream that a consumer group has yet to read",
        lambda f: f.streams.lags,
    ),
)
ALERTS = (
    figure(
        "leveret_alerts_firing",
        "gauge",
        "Alerts of the broker itself that are firing, by rule",
        lambda f: {labels(rule=rule): count for rule, count in f.alerts.items()},
    ),
)
SECURITY = (
    figure(
        "leveret_audit_rows_total",
        "counter",
        "Rows of the audit log since the start, by log; refusals that are counted are one row",
        lambda f: {labels(log=kind): count for kind, count in f.audit.counts()["rows"].items()},
    ),
    figure(
        "leveret_audit_rows_lost_total",
        "counter",
        "Rows of the audit log that the disk has not taken",
        lambda f: {labels(log=kind): count for kind, count in f.audit.counts()["lost"].items()},
    ),
    figure(
        "leveret_audit_forwarded_total",
        "counter",
        "Rows of the audit log for the collector, by outcome: sent, dropped; no sample without audit_forward",
        forwarded,
    ),
    figure(
        "leveret_audit_forward_waiting",
        "gauge",
        "Rows of the audit log that wait for the collector; no sample without audit_forward",
        lambda f: None if f.audit.forwarder is None else len(f.audit.forwarder),
    ),
    figure(
        "leveret_tls_revocation_list_expiry_timestamp_seconds",
        "gauge",
        "When the first revocation list of certificates expires (clients, links), in seconds since 1970",
        lists_end,
    ),
)
OWN = MESSAGES + CONNECTIONS + STORAGE + STREAMS + ALERTS + SECURITY
