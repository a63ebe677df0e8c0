"""Rules as a broker at work has them: which figure of which queues, how much is too much, and for how long.

The rules of `leveret.observability.alert_rules` are always there; a definition of the same name takes the place of one.
"""

from dataclasses import asdict, dataclass
from typing import Any

from leveret.core.patterns import glob_matches
from leveret.observability.alert_rules import RULES, STREAM_RULES, AlertRule
from leveret.observability.alerting.fields import ALL, Row, check_known, choice, flag, glob, named, number, text, whole

RULES_MAX = 200  # each is held against every queue
LIMIT_MAX = 10**15
FOR_S_MAX = 7 * 24 * 3600
SAMPLE_MAX = 10**9
SEVERITIES = ("info", "warning", "critical")

_TABLE: tuple[AlertRule, ...] = (*RULES, *STREAM_RULES)
UNITS: dict[str, str] = {each.figure: each.unit for each in _TABLE}
ABOUT_WAITING = frozenset(each.figure for each in _TABLE if each.about_waiting)


@dataclass(frozen=True, slots=True)
class AlertRuleSettings:
    """What is watched; `vhost` and `queue` are patterns of names."""

    name: str
    figure: str
    limit: float
    clear: float
    """A firing alert ends when its figure is down to this."""
    for_s: int
    severity: str
    says: str
    vhost: str = ALL
    queue: str = ALL
    sample_min: int = 0
    enabled: bool = True

    @classmethod
    def from_dict(cls, row: Row) -> "AlertRuleSettings":
        check_known("a rule", row, FIELDS)
        name = named("a rule", row)
        what = f"rule '{name}'"
        figure = choice(what, row, "figure", "", tuple(UNITS))
        limit = number(what, row, "limit", -1, 0, LIMIT_MAX)
        return cls(
            name=name,
            figure=figure,
            limit=limit,
            clear=number(what, row, "clear", clear_of(limit), 0, limit),
            for_s=whole(what, row, "for_s", 0, 0, FOR_S_MAX),
            severity=choice(what, row, "severity", "warning", SEVERITIES),
            says=text(what, row, "says"),
            vhost=glob(what, row, "vhost"),
            queue=glob(what, row, "queue"),
            sample_min=whole(what, row, "sample_min", 0, 0, SAMPLE_MAX),
            enabled=flag(what, row, "enabled", True),
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def unit(self) -> str:
        """What its limit is counted in."""
        return UNITS[self.figure]

    def covers(self, vhost: str, queue: str) -> bool:
        """Whether a queue is one of those that it is about."""
        return (self.queue == ALL or glob_matches(self.queue, queue)) and (
            self.vhost == ALL or glob_matches(self.vhost, vhost)
        )


FIELDS = tuple(AlertRuleSettings.__dataclass_fields__)


def clear_of(limit: float) -> float:
    """Where an alert ends by default: what goes up and down around the limit is one alert, not many."""
    return limit * 9 // 10 if isinstance(limit, int) else limit * 0.9


def default_rule(given: AlertRule) -> AlertRuleSettings:
    """A rule of the shared table, for every queue."""
    fields = {name: getattr(given, name) for name in ("name", "figure", "limit", "for_s", "severity", "says")}
    return AlertRuleSettings.from_dict({**fields, "sample_min": given.sample_min})


DEFAULTS: dict[str, AlertRuleSettings] = {each.name: default_rule(each) for each in _TABLE}
