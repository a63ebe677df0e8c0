"""The rules of alerts, as data: what watches a running broker and what reads its history judge by the same table.

A rule fires when its figure is over the limit. Figures are those of one queue; the history that
`pipeline/report/history.py` makes has a column for each.
"""

from typing import NamedTuple


class AlertRule(NamedTuple):
    """One rule: the figure of a queue that is looked at, and how much of it is too much."""

    name: str
    figure: str
    limit: float
    unit: str
    severity: str
    says: str


RULES = (
    AlertRule(
        "queue_depth", "depth_max", 10_000, "messages", "warning", "more messages are in the queue than should be"
    ),
    AlertRule("message_age", "oldest_ms", 300_000, "ms", "warning", "a message was not settled for minutes"),
    AlertRule("consumer_lag", "waiting_max", 1_000, "messages", "warning", "consumers are behind what is published"),
    AlertRule("dead_letters", "dead_per_hour", 100, "messages/h", "critical", "many messages died within an hour"),
    AlertRule("error_rate", "error_share", 0.01, "share", "warning", "too many deliveries failed"),
    AlertRule("processing_time", "processing_p95_ms", 30_000, "ms", "warning", "consumers take long for a message"),
    AlertRule("no_consumers", "idle_ms", 60_000, "ms", "critical", "messages waited, and nobody took any"),
)
