"""`leveret pipeline plan`: capacity for a workload that is given, or observed."""

from dataclasses import fields, replace

from leveret.core.errors import InvalidArgument
from leveret.pipeline.commands.context import Context, Listing, Outcome
from leveret.pipeline.plan import Workload, as_facts, observed, plan, readable


def run(context: Context) -> Outcome:
    """Print what a workload needs."""
    given = context.given
    stated = {each.name: getattr(given, each.name) for each in fields(Workload)}
    stated = {name: value for name, value in stated.items() if value is not None}
    if given.path is not None:
        with context.spark() as (spark, status):
            status.tell("observing the workload")
            load = replace(observed(context.table(spark, "events")), **stated)
    elif "messages_per_s" in stated:
        load = Workload(**stated)
    else:
        raise InvalidArgument("no workload: give --messages-per-s, or --path to observe one")
    figures = plan(load, costs(given.cost))
    if given.json:
        return Outcome(as_facts(load, figures))
    rows = [readable(figure) for figure in figures]
    return Outcome(listings=(Listing("", ("figure", "value", "basis", "how"), rows),))


def costs(pairs: list[str]) -> dict[str, float]:
    """Costs of one's own, from NAME=NUMBER."""
    try:
        return {name: float(value) for name, value in (pair.split("=", 1) for pair in pairs)}
    except ValueError:
        raise InvalidArgument(f"--cost {' '.join(pairs)!r}: write NAME=NUMBER, such as cpu_us=2.5") from None
