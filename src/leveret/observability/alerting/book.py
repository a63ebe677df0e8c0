"""Rules, receivers and silences, kept as definitions of the core; used under its lock."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import NotFound, PreconditionFailed, TooMany
from leveret.observability.alerting.engine import Key
from leveret.observability.alerting.fields import Row
from leveret.observability.alerting.receivers import RECEIVERS_MAX, Receiver, restored, with_secrets_of
from leveret.observability.alerting.rules import DEFAULTS, RULES_MAX, AlertRuleSettings
from leveret.observability.alerting.silences import SILENCES_MAX, Silence

T = TypeVar("T", AlertRuleSettings, Receiver, Silence)


class Book:
    """Everything that is defined about alerts."""

    def __init__(self, core: Broker, plain_remote: bool = False) -> None:
        """Read what a core has; `plain_remote` lets receivers elsewhere be told without TLS."""
        self._core = core
        self._plain_remote = plain_remote
        self._rules = {row.name: row for row in map(AlertRuleSettings.from_dict, self._stored(Kind.ALERT_RULE))}
        self._receivers = {row.name: row for row in map(restored, self._stored(Kind.ALERT_RECEIVER))}
        self._silences = {row.name: row for row in map(Silence.from_dict, self._stored(Kind.ALERT_SILENCE))}

    def follow(self, kind: Kind, definition: dict[str, Any], removed: bool) -> None:
        """Know what was defined by another node, or taken back."""
        if kind not in READERS:
            return
        known, read = getattr(self, READERS[kind][0]), READERS[kind][1]
        if removed:
            known.pop(definition["name"], None)
        else:
            known[definition["name"]] = read(definition["value"])

    # Rules

    def rules(self) -> list[AlertRuleSettings]:
        return [rule for _, rule in sorted({**DEFAULTS, **self._rules}.items())]

    def rule(self, name: str) -> AlertRuleSettings:
        """The rule of that name."""
        return _found("rule", name, {**DEFAULTS, **self._rules})

    def changed_rules(self) -> list[AlertRuleSettings]:
        """Those that are not as they always are."""
        return [rule for _, rule in sorted(self._rules.items())]

    def put_rule(self, row: Row) -> AlertRuleSettings:
        rule = AlertRuleSettings.from_dict(row)
        known = rule.name in DEFAULTS or rule.name in self._rules
        _check_room("rules", known, len({**DEFAULTS, **self._rules}), RULES_MAX)
        return self._keep(Kind.ALERT_RULE, self._rules, rule)

    def delete_rule(self, name: str) -> None:
        """Forget a rule; one of the defaults is as it was again."""
        if name not in self._rules and name in DEFAULTS:
            raise PreconditionFailed(f"rule '{name}' is always there: disable it instead")
        self._drop(Kind.ALERT_RULE, "rule", self._rules, name)

    # Receivers

    def receivers(self) -> list[Receiver]:
        """Every receiver, by name."""
        return [receiver for _, receiver in sorted(self._receivers.items())]

    def receiver(self, name: str) -> Receiver:
        return _found("receiver", name, self._receivers)

    def put_receiver(self, row: Row) -> Receiver:
        """Add or replace a receiver; secrets that are left out stay."""
        name = row.get("name")
        known = self._receivers.get(name) if isinstance(name, str) else None
        receiver = Receiver.from_dict(with_secrets_of(row, known), self._plain_remote)
        _check_room("receivers", known is not None, len(self._receivers), RECEIVERS_MAX)
        return self._keep(Kind.ALERT_RECEIVER, self._receivers, receiver)

    def delete_receiver(self, name: str) -> None:
        """Tell a receiver nothing any more."""
        self._drop(Kind.ALERT_RECEIVER, "receiver", self._receivers, name)

    # Silences

    def silences(self) -> list[Silence]:
        """Every silence, the one that ends first in front."""
        return sorted(self._silences.values(), key=lambda each: (each.until_ms, each.name))

    def silence(self, name: str) -> Silence:
        return _found("silence", name, self._silences)

    def put_silence(self, silence: Silence) -> Silence:
        _check_room("silences", silence.name in self._silences, len(self._silences), SILENCES_MAX)
        return self._keep(Kind.ALERT_SILENCE, self._silences, silence)

    def delete_silence(self, name: str) -> Silence:
        """End a silence before its time; give what it was."""
        ended = self.silence(name)
        self._drop(Kind.ALERT_SILENCE, "silence", self._silences, name)
        return ended

    def over(self, now_ms: int) -> list[Silence]:
        """The silences whose time has come."""
        return [each for each in self._silences.values() if each.until_ms <= now_ms]

    def expire(self, now_ms: int) -> list[Silence]:
        """End them; give those that were not ended before."""
        ended = self.over(now_ms)
        for silence in ended:
            self.delete_silence(silence.name)
        return ended

    def silence_of(self, key: Key) -> Silence | None:
        """The silence that an alert is under, if there is one."""
        return next((each for each in self._silences.values() if each.covers(key)), None)

    # In the core: under a name and nothing else, so that every other field can change

    def _stored(self, kind: Kind) -> Iterator[dict[str, Any]]:
        return (stored["value"] for stored in self._core.catalog.of(kind))

    def _keep(self, kind: Kind, known: dict[str, T], each: T) -> T:
        known[each.name] = each
        self._core.define(kind, {"name": each.name, "value": each.to_dict()})
        return each

    def _drop(self, kind: Kind, what: str, known: dict[str, T], name: str) -> None:
        _found(what, name, known)
        del known[name]
        self._core.undefine(kind, {"name": name})


READERS: dict[Kind, tuple[str, Callable[[dict[str, Any]], Any]]] = {
    Kind.ALERT_RULE: ("_rules", AlertRuleSettings.from_dict),
    Kind.ALERT_RECEIVER: ("_receivers", restored),
    Kind.ALERT_SILENCE: ("_silences", Silence.from_dict),
}


def _found(what: str, name: str, known: dict[str, T]) -> T:
    found = known.get(name)
    if found is None:
        raise NotFound(f"no alert {what} '{name}': list them to see which there are")
    return found


def _check_room(what: str, known: bool, count: int, most: int) -> None:
    if not known and count >= most:
        raise TooMany(f"there are {most} alert {what}: delete some")
