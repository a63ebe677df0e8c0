"""The time that a report covers, and the periods it is told in."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

from leveret.core.errors import InvalidArgument

PERIODS_WANTED = 12
"""A report without a chosen period has about that many at least."""
PERIODS_MAX = 10_000
"""What plots can show and windows can sort; more would be a mistake in the choice of the period."""


class Period(NamedTuple):
    """How long a period is, and in which steps depth is followed within it."""

    seconds: int
    step_s: int


PERIODS = {"second": Period(1, 1), "minute": Period(60, 1), "hour": Period(3600, 10), "day": Period(86_400, 60)}


@dataclass(frozen=True)
class ReportSpan:
    """From the first to the last thing that a report tells of, in periods."""

    first: datetime
    until: datetime
    period: str

    @property
    def seconds(self) -> int:
        """How long a period is."""
        return PERIODS[self.period].seconds

    def starts(self) -> list[datetime]:
        """The starts of all periods."""
        start = self.start_of(self.first)
        count = int((self.until - start).total_seconds()) // self.seconds + 1
        return [start + timedelta(seconds=self.seconds * number) for number in range(count)]

    def start_of(self, moment: datetime) -> datetime:
        """When the period of a time begins."""
        seconds = int(moment.timestamp()) // self.seconds * self.seconds
        return datetime.fromtimestamp(seconds, UTC)

    def at(self, time: Column) -> Column:
        """The start of the period of a time, in a table."""
        return _floored(time, self.seconds)

    def step(self, time: Column) -> Column:
        """The start of the step of a time, in a table."""
        return _floored(time, PERIODS[self.period].step_s)

    def end(self, period: Column) -> Column:
        """When a period ends; the last one when the report does."""
        return F.least(period + F.make_interval(secs=F.lit(self.seconds)), F.lit(self.until))


def span(first: datetime, until: datetime, period: str | None) -> ReportSpan:
    """The span between two times; without a period the longest of which there are enough."""
    if period is None:
        length_s = (until - first).total_seconds()
        fitting = [name for name, each in PERIODS.items() if each.seconds * PERIODS_WANTED <= length_s]
        period = fitting[-1] if fitting else "second"
    if period not in PERIODS:
        raise InvalidArgument(f"period={period!r}: give one of {', '.join(PERIODS)}")
    found = ReportSpan(first, until, period)
    count = (until - first).total_seconds() / found.seconds
    if count > PERIODS_MAX:
        raise InvalidArgument(
            f"period={period!r}: from {first} to {until} there are {count:,.0f} of them, and at most {PERIODS_MAX:,} "
            "can be shown; give a longer period, or a shorter time by `since` and `until`"
        )
    return found


def _floored(time: Column, seconds: int) -> Column:
    """A time without what is more than a multiple of so many seconds."""
    return F.timestamp_seconds(F.floor(F.unix_seconds(time) / seconds) * seconds)
