"""`leveret pipeline report`: what happened in the queues, as tables, a page with plots, and a summary."""

from leveret.spark.commands.context import Context, Outcome
from leveret.spark.report import Objective, build


def run(context: Context) -> Outcome:
    """Write a report."""
    given = context.given
    objective = Objective(given.within_ms, given.share)
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
        )
    return Outcome({"page": done.page}, text=done.summary)
