"""What is wrong now, judged again and again: an alert is pending, then firing, then gone. Time is an argument.

    over the limit           -> pending -> for_s later -> firing    event "firing"
    pending, not over it     -> forgotten
    firing, down to `clear`  -> forgotten                           event "resolved"
    not judged in a turn     -> the same: its queue or its rule is gone
    restored, not known yet  -> firing, as before the restart: its figure needs a memory that the process lacks
    its queue has moved      -> forgotten: its new owner judges it

A turn is one look at all queues: `judge` for each rule and queue that may matter, then `finish`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from leveret.observability.alerting.rules import AlertRuleSettings

ALERTS_MAX = 5_000  # known at the same time: more cannot be read
PENDING, FIRING, RESOLVED = "pending", "firing", "resolved"

Key = tuple[str, str, str]
"""Rule, virtual host and queue."""


class Alert:
    """One rule that is broken by one queue."""

    __slots__ = ("fired_ms", "key", "restored_ms", "rule", "seen", "since_ms", "state", "value", "worst")

    def __init__(self, key: Key, rule: AlertRuleSettings, since_ms: int, value: float) -> None:
        self.key = key
        self.rule = rule
        self.state = PENDING
        self.since_ms = since_ms
        self.fired_ms = 0
        self.restored_ms: int | None = None
        """When this process took it over from the last one; None once its figure was over the limit here."""
        self.value = self.worst = value
        self.seen = 0

    @classmethod
    def of_row(cls, key: Key, rule: AlertRuleSettings, row: Mapping[str, Any]) -> "Alert":
        """What the history of the last process says of it: `event`, `since_ms`, `fired_ms` and `value`."""
        alert = cls(key, rule, row["since_ms"], row["value"])
        alert.state, alert.fired_ms = row["event"], row["fired_ms"]
        return alert

    def to_dict(self) -> dict[str, Any]:
        name, vhost, queue = self.key
        return {
            "rule": name,
            "vhost": vhost,
            "queue": queue,
            "state": self.state,
            "severity": self.rule.severity,
            "figure": self.rule.figure,
            "unit": self.rule.unit,
            "limit": self.rule.limit,
            "value": self.value,
            "worst": self.worst,
            "says": self.rule.says,
            "since_ms": self.since_ms,
        }


class AlertEvent(NamedTuple):
    """Something that changed: an alert that is firing from now on, or no longer."""

    state: str
    at_ms: int
    alert: Alert


class AlertEngine:
    """Every alert that is known."""

    def __init__(self) -> None:
        self.alerts: dict[Key, Alert] = {}
        self.left_out = 0
        """How many more there were in the last turn than can be kept."""
        self._events: list[AlertEvent] = []
        self._turn = 1
        self._left_out = 0

    def restore(self, alert: Alert, now_ms: int) -> None:
        """Take over an alert that was firing when the last process ended: it is not news if it still is."""
        alert.restored_ms = now_ms
        self._keep(alert)

    def judge(self, rule: AlertRuleSettings, vhost: str, queue: str, value: float, now_ms: int) -> None:
        """Hold the figure of a queue against a rule."""
        key = (rule.name, vhost, queue)
        alert = self.alerts.get(key)
        if alert is None:
            if value <= rule.limit:
                return
            alert = Alert(key, rule, now_ms, value)
            if not self._keep(alert):
                return
        elif value <= (rule.clear if alert.state == FIRING else rule.limit):
            return  # not seen in this turn, it ends with it
        alert.rule, alert.value, alert.seen, alert.restored_ms = rule, value, self._turn, None
        alert.worst = max(alert.worst, value)
        if alert.state == PENDING and now_ms - alert.since_ms >= rule.for_s * 1_000:
            alert.state, alert.fired_ms = FIRING, now_ms
            self._events.append(AlertEvent(FIRING, now_ms, alert))

    def finish(
        self,
        now_ms: int,
        moved: Callable[[str, str], bool] = lambda vhost, queue: False,
        unknown: Collection[Key] = (),
    ) -> list[AlertEvent]:
        """End a turn: what was not seen in it is over. Gives all that changed since the last one ended.

        `moved` says whether another node has a queue: that it is not seen here does not mean that it is well.
        Restored alerts that are `unknown` go on: a low figure does not mean that yet, either.
        """
        for alert in [each for each in self.alerts.values() if each.seen != self._turn and each.key not in unknown]:
            del self.alerts[alert.key]
            if alert.state == FIRING and not moved(*alert.key[1:]):
                alert.state = RESOLVED
                self._events.append(AlertEvent(RESOLVED, now_ms, alert))
        self.left_out, self._left_out = self._left_out, 0
        self._turn += 1
        events, self._events = self._events, []
        return events

    def firing(self) -> Iterator[Alert]:
        """The alerts that are not only pending."""
        return (alert for alert in self.alerts.values() if alert.state == FIRING)

    def _keep(self, alert: Alert) -> bool:
        if len(self.alerts) >= ALERTS_MAX:
            self._left_out += 1
            return False
        self.alerts[alert.key] = alert
        return True


def worst_first(alerts: Iterable[Alert]) -> list[Alert]:
    """The order in which people want to see them: firing before pending, critical before warning, the oldest first."""
    ranks = {"critical": 0, "warning": 1, "info": 2}
    return sorted(alerts, key=lambda each: (each.state != FIRING, ranks[each.rule.severity], each.since_ms, each.key))
