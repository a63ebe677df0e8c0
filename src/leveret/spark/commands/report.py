"""`leveret pipeline report`: what happened in the queues, as tables, a page with plots, and a summary."""

from datetime import UTC, datetime

from leveret.clock import SystemClock
from leveret.spark.commands.context import Context, Outcome
from leveret.spark.report import Objective, build
from leveret.spark.report.streams import commit_times, lags


def run(context: Context) -> Outcome:
    """Write a report."""
    given = context.given
    objective = Objective(given.within_ms, given.share)
    earlier = {"since": given.compare_since, "until": given.compare_until}
    compare = {name: value for name, value in earlier.items() if value is not None}
    streams = [] if given.url is None else lags(given.url, given.token)
    commits = None if given.url is None else commit_times(given.url, given.token)
    is_now = given.running and given.until is None
    with context.spark() as (spark, status):
        context.catch_up(spark, status)
        status.tell("report")
        done = build(
            spark,
            context.options(),
            given.out,
            period=given.period,
            objective=objective,
            tenant_header=None if given.events_only else given.tenant_header,
            compare=compare or None,
            streams=streams,
            commits=commits,
            now=datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC) if is_now else None,
        )
    return Outcome({"page": done.page}, text=done.summary)
