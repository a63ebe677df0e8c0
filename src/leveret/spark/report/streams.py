"""What a running broker tells beside its history: how many records streams hold and how far each consumer group is
behind, and how long publishes wait until they are durable and confirmed.
"""

import re
from typing import NamedTuple

from leveret.client.broker import connect
from leveret.client.calls import ClientCall
from leveret.core.errors import AccessRefused
from leveret.observability.alert_rules import STREAM_RULES

GROUPS_MAX = 10_000
(LAG_RULE,) = STREAM_RULES


STREAM_COLUMNS = "stream string, records bigint, group string, lag bigint, warning boolean"


class StreamLag(NamedTuple):
    """A consumer group of a stream, or a stream that no group reads."""

    stream: str
    records: int
    group: str | None
    lag: int | None
    warning: bool


COMMIT_COLUMNS = "commits bigint, p50_ms double, p95_ms double, p99_ms double"
SHARES = (0.5, 0.95, 0.99)
_COMMITS = re.compile(r'^leveret_journal_commit_seconds_bucket\{le="([\d.e+-]+|\+Inf)"\} (\d+)', re.MULTILINE)


class CommitTimes(NamedTuple):
    """How long the first publish of a commit waited to be durable, since the server was started."""

    commits: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


def commit_times(url: str, token: str | None = None) -> CommitTimes | None:
    """The ends of the buckets in which they are; None without a commit, or for a user who may not see metrics."""
    try:
        with connect(url, token=token) as broker:
            text = broker.run(ClientCall("GET", "/metrics", lambda answer: answer.body.decode()))
    except AccessRefused:
        return None
    buckets = [(float(edge), int(count)) for edge, count in _COMMITS.findall(text)]
    whole = max((count for _, count in buckets), default=0)
    if not whole:
        return None
    return CommitTimes(
        whole, *(next(1000 * edge for edge, count in buckets if count >= each * whole) for each in SHARES)
    )


def lags(url: str, token: str | None = None) -> list[StreamLag]:
    """Every stream that one may use, the groups that are furthest behind first."""
    found: list[StreamLag] = []
    with connect(url, token=token) as broker:
        for stream in broker.streams():
            records = stream.stats().records
            groups = stream.groups()[: GROUPS_MAX - len(found)]
            found += [_lag(stream.name, records, group.name, sum(group.lag().values())) for group in groups]
            if not groups:
                found.append(_lag(stream.name, records, None, None))
    return sorted(found, key=lambda each: (-(each.lag or 0), each.stream, each.group or ""))


def _lag(stream: str, records: int, group: str | None, lag: int | None) -> StreamLag:
    return StreamLag(stream, records, group, lag, lag is not None and lag > LAG_RULE.limit)
