"""Who is told what, and when: the alerts of one rule for one receiver are one group. Time is an argument.

something began or ended   -> told at once, but not before group_s after the last notification of the group
nothing new, still firing  -> told again after repeat_s
silenced                   -> told nothing of it; after the silence, that it still is so, or to who was told before
                              that it was so, that it has ended
"""

from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import NamedTuple

from leveret.observability.alerting.engine import FIRING, RESOLVED, Alert, AlertEvent, Key, worst_first
from leveret.observability.alerting.receivers import Receiver
from leveret.observability.alerting.rules import AlertRuleSettings

TEST = "test"

IsSilenced = Callable[[Key], bool]


class Notification(NamedTuple):
    """What one receiver is told about one rule."""

    receiver: Receiver
    rule: AlertRuleSettings
    at_ms: int
    firing: tuple[Alert, ...]
    resolved: tuple[Alert, ...]
    test: bool = False

    @property
    def status(self) -> str:
        """Firing as long as one of its alerts is."""
        return TEST if self.test else FIRING if self.firing else RESOLVED


@dataclass(slots=True)
class NotificationGroup:
    """What a receiver knows about a rule."""

    told: set[Key] = field(default_factory=set)
    """The alerts that it believes to be firing."""
    muted: set[Key] = field(default_factory=set)
    """Those of them that have been silenced since: if they still are firing after that, it is told again."""
    ended: dict[Key, Alert] = field(default_factory=dict)
    """Those of them that are over, and that it does not know of yet."""
    sent_ms: int | None = None


class Notifications:
    """Every group."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, NotificationGroup]] = {}
        """By receiver and rule."""

    def restore(self, receiver: str, rule: str, alerts: Iterable[Alert], sent_ms: int) -> None:
        """A receiver was told about those of the alerts that were firing at that time, and of no end since."""
        group = self._groups.setdefault(receiver, {}).setdefault(rule, NotificationGroup())
        told = [alert for alert in alerts if alert.fired_ms <= sent_ms]
        group.told = {alert.key for alert in told}
        group.ended = {alert.key: alert for alert in told if alert.state == RESOLVED}
        group.sent_ms = sent_ms

    def due(
        self,
        receivers: list[Receiver],
        firing: Iterable[Alert],
        events: Iterable[AlertEvent],
        now_ms: int,
        is_silenced: IsSilenced,
    ) -> list[Notification]:
        """The notifications to send now."""
        current = by_rule(firing)
        self._end(by_rule(event.alert for event in events if event.state == RESOLVED))
        names = {receiver.name for receiver in receivers}
        self._groups = {name: groups for name, groups in self._groups.items() if name in names}
        return [notification for each in receivers for notification in self._for(each, current, now_ms, is_silenced)]

    def _end(self, over: dict[str, list[Alert]]) -> None:
        """Note what is over in the groups that were told about it."""
        for groups in self._groups.values():
            for rule, group in groups.items():
                group.ended |= {alert.key: alert for alert in over.get(rule, ()) if alert.key in group.told}

    def _for(
        self, receiver: Receiver, firing: dict[str, list[Alert]], now_ms: int, is_silenced: IsSilenced
    ) -> Iterator[Notification]:
        """What one receiver is to be told."""
        groups = self._groups.setdefault(receiver.name, {})
        for rule in sorted({*groups, *firing}):
            current = [alert for alert in firing.get(rule, ()) if receiver.wants(alert.rule)]
            if not current and rule not in groups:
                continue
            group = groups.setdefault(rule, NotificationGroup())
            notification = _notification(receiver, group, current, now_ms, is_silenced)
            if notification is not None:
                yield notification
            if not (group.told or group.ended) and not _waits(receiver.group_s, group, now_ms):
                del groups[rule]


def by_rule(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    """Alerts by the name of their rule."""
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        found.setdefault(alert.rule.name, []).append(alert)
    return found


def _waits(wait_s: int, group: NotificationGroup, now_ms: int) -> bool:
    """Whether the last notification of a group is not long enough ago."""
    return group.sent_ms is not None and now_ms - group.sent_ms < wait_s * 1_000


def _notification(
    receiver: Receiver, group: NotificationGroup, current: list[Alert], now_ms: int, is_silenced: IsSilenced
) -> Notification | None:
    """What a group is to be told now, if anything."""
    _follow(group, {alert.key for alert in current}, is_silenced)
    heard = [alert for alert in current if not is_silenced(alert.key)]
    keys = {alert.key for alert in heard}
    over = {key: alert for key, alert in group.ended.items() if not is_silenced(key)}
    news = bool(keys - group.told or keys & group.muted or over)
    if not (news or heard) or _waits(receiver.group_s if news else receiver.repeat_s, group, now_ms):
        return None
    group.told = (group.told - over.keys()) | keys
    group.muted -= keys
    group.ended = {key: alert for key, alert in group.ended.items() if key not in over}
    group.sent_ms = now_ms
    resolved = tuple(worst_first(over.values()))
    rule = (heard or list(resolved))[0].rule
    # As they are now: a notification may be under way for minutes, while its alerts go on.
    return Notification(receiver, rule, now_ms, tuple(map(copy, worst_first(heard))), resolved)


def _follow(group: NotificationGroup, firing: set[Key], is_silenced: IsSilenced) -> None:
    """Let a group know what has begun again before its end was told, is silenced, or concerns another node by now."""
    group.ended = {key: alert for key, alert in group.ended.items() if key not in firing}
    group.told &= firing | group.ended.keys()
    group.muted = {key for key in group.told if key in group.muted or is_silenced(key)}
