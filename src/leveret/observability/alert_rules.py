"""The rules of alerts, as data: what watches a running broker and what reads its history judge by the same table.

A rule fires when its figure is over the limit and of enough cases to mean something. Figures are those of one queue;
the history that `spark/report/tables.py` makes has a column for each, and `observability/alerting/figures.py` reads
them off a queue at work. Dead letters lie until an operator looks at them: rules about waiting leave alone the queues
that hold nothing else.
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
    about_waiting: bool = False
    sample: str | None = None
    """The figure that says of how many cases it is."""
    sample_min: int = 0
    for_s: int = 0
    """How long it has to last before receivers are told; figures that are times have waited long enough."""


RULES = (
    AlertRule(
        "queue_depth",
        "depth_max",
        10_000,
        "messages",
        "warning",
        "more messages are in the queue than should be",
        for_s=60,
    ),
    AlertRule("message_age", "oldest_ms", 300_000, "ms", "warning", "a message was not settled for minutes", True),
    AlertRule(
        "consumer_lag",
        "waiting_max",
        1_000,
        "messages",
        "warning",
        "consumers are behind what is published",
        True,
        for_s=60,
    ),
    AlertRule("dead_letters", "dead_per_hour", 100, "messages/h", "critical", "many messages died within an hour"),
    AlertRule(
        "error_rate",
        "error_share",
        0.01,
        "share",
        "warning",
        "too many deliveries failed",
        sample="ended",
        sample_min=50,
        for_s=60,
    ),
    AlertRule(
        "processing_time",
        "processing_p95_ms",
        30_000,
        "ms",
        "warning",
        "consumers take long for a message",
        for_s=60,
    ),
    AlertRule(
        "no_consumers", "idle_ms", 60_000, "ms", "critical", "messages waited, and no consumer took any of them", True
    ),
)
STREAM_RULES = (
    AlertRule(
        "stream_lag",
        "lag_max",
        1_000,
        "records",
        "warning",
        "a consumer group is behind what is appended to the stream",
        for_s=60,
    ),
)
"""Those about streams, which only a broker at work is asked about: the history has queues."""
