"""`leveret pipeline plan`: capacity for a workload that is given, or observed."""

from argparse import Namespace
from dataclasses import fields, replace

from leveret.core.errors import InvalidArgument
from leveret.spark import forecast
from leveret.spark.commands.context import Context, Outcome, PrintedRows
from leveret.spark.plan import ASSUMED, GIVEN, OBSERVED, Bases, Workload, as_facts, observed, plan, readable


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
    own = costs(given.cost)
    figures = plan(load, own, bases(set(stated), observed_one=given.path is not None))
    made, reached = forecast_of(given, load, own)
    if given.json:
        return Outcome(as_facts(load, figures) | ({"forecast": forecast.as_facts(made, reached)} if made else {}))
    listings = [PrintedRows("", ("figure", "value", "basis", "how"), [readable(figure) for figure in figures])]
    if made is not None:
        title = f"{made.growth_percent:g} % more each month"
        listings.append(PrintedRows(title, ("months", *forecast.SHOWN), forecast.month_rows(made)))
    if reached:
        listings.append(PrintedRows("limits", ("limit", "figure", "reached"), forecast.limit_rows(reached)))
    return Outcome(listings=tuple(listings))


def forecast_of(
    given: Namespace, load: Workload, own: dict[str, float]
) -> tuple[forecast.Forecast | None, list[forecast.Reached]]:
    """The forecast that flags ask for, and when it reaches the limits that they give."""
    limits = forecast.checked_limits({name: getattr(given, name) for name in forecast.LIMITS})
    if given.growth_per_month is None:
        if limits:
            raise InvalidArgument(f"{min(limits)} is given without a growth: give --growth-per-month, too")
        return None, []
    made = forecast.forecast(load, given.growth_per_month, own)
    return made, [made.reached(name, value) for name, value in limits.items()]


def bases(stated: set[str], *, observed_one: bool) -> Bases:
    """What each fact of a workload rests on: flags, events, or the defaults, as retention and protocol always are."""
    seen = {each.name for each in fields(Workload)} - {"retention_days", "protocol"} if observed_one else set()
    return Bases(
        {
            each.name: GIVEN if each.name in stated else OBSERVED if each.name in seen else ASSUMED
            for each in fields(Workload)
        }
    )


def costs(pairs: list[str]) -> dict[str, float]:
    """Costs of one's own, from NAME=NUMBER."""
    try:
        return {name: float(value) for name, value in (pair.split("=", 1) for pair in pairs)}
    except ValueError:
        raise InvalidArgument(f"--cost {' '.join(pairs)!r}: write NAME=NUMBER, such as cpu_us=2.5") from None
