"""Streams of a running broker: how many records they hold, and how far each consumer group is behind.

History tells what came into streams and went out of them, not where groups are: a server is asked for that.
"""

from typing import NamedTuple

from leveret.client.broker import connect
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
