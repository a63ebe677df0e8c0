"""Alerts: rules, receivers, silences, and what happened. What is wrong now only a running server knows."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Annotated, Any

from leveret.core.errors import PreconditionFailed
from leveret.observability.alerting.book import Book
from leveret.observability.alerting.payloads import time_of
from leveret.observability.alerting.rules import DEFAULTS
from leveret.observability.alerting.service import Alerting, begin_silence
from leveret.operations.context import OPERATOR, OperationContext
from leveret.operations.operation import ADMINISTERED, MANAGED, MONITORED, POLICIES, Name, changes, looks

MINUTE_MS = 60_000
EVENTS = 100  # that are told unless others are asked for
RuleVhost = Annotated[str | None, "of which virtual hosts; * is any text"]
By = Annotated[str, "who wants it; default: (operator)"]
RuleQueue = Annotated[str | None, "which queues; * is any text"]
EVENT = (
    "at_ms",
    "event",
    "severity",
    "rule",
    "vhost",
    "queue",
    "value",
    "limit",
    "receiver",
    "silence",
    "by",
    "reason",
)


class Lasting:
    """What a verb gives, with what is to be done when that lasts: the verb may be run more than once before."""

    def __init__(self, result: Any, then: Callable[[], None]) -> None:
        self._result = result
        self._then = then

    def __await__(self) -> Generator[None, None, Any]:
        yield from ()
        self._then()
        return self._result


def book_of(context: OperationContext) -> Book:
    """What is defined: as the server knows it, or as a data directory has it."""
    return Book(context.core) if context.alerts is None else context.alerts.book


def at_work(context: OperationContext) -> Alerting:
    """The server that looks at queues."""
    if context.alerts is None:
        raise PreconditionFailed("no server looks at this directory: start it, then ask again")
    return context.alerts


def list_all(context: OperationContext) -> list[dict[str, Any]]:
    """List rules."""
    return [rule.to_dict() for rule in book_of(context).rules()]


def assign(
    context: OperationContext,
    name: Name,
    figure: Annotated[str | None, "what is looked at, such as waiting_max; docs/alerts.md has all"] = None,
    limit: Annotated[int | float | None, "more than this is too much"] = None,
    clear: Annotated[int | float | None, "down to this, it is over; default: 9/10 of the limit"] = None,
    for_s: Annotated[int | None, "seconds that it has to last; default: 0"] = None,
    severity: Annotated[str | None, "info, warning or critical"] = None,
    vhost: RuleVhost = None,
    queue: RuleQueue = None,
    says: Annotated[str | None, "what receivers read"] = None,
    enabled: bool | None = None,
) -> dict[str, Any]:
    """Make a rule, or change one in what is told."""
    book = book_of(context)
    known = next((rule.to_dict() for rule in book.rules() if rule.name == name), {"name": name})
    if limit is not None:
        known.pop("clear", None)  # it belongs to the limit that there was
    told = {
        "figure": figure,
        "limit": limit,
        "clear": clear,
        "for_s": for_s,
        "severity": severity,
        "vhost": vhost,
        "queue": queue,
        "says": says,
        "enabled": enabled,
    }
    return book.put_rule({**known, **{key: value for key, value in told.items() if value is not None}}).to_dict()


def clear(context: OperationContext, name: Name) -> dict[str, Any]:
    """Delete a rule, or have one as it always is."""
    book_of(context).delete_rule(name)
    return {"name": name, "left": "as it always is" if name in DEFAULTS else "gone"}


def firing(context: OperationContext) -> list[dict[str, Any]]:
    """Show what is wrong now."""
    return [{**row, "since": time_of(row["since_ms"])} for row in at_work(context).alerts()]


def silences(context: OperationContext) -> list[dict[str, Any]]:
    """List silences."""
    now_ms = context.core.now_ms
    return [
        {**each.to_dict(), "minutes_left": max(0, -((now_ms - each.until_ms) // MINUTE_MS))}
        for each in book_of(context).silences()
    ]


def silence(
    context: OperationContext,
    *,
    name: Annotated[str | None, "to end it by; default: a new one"] = None,
    rule: Annotated[str, "which rules; * is any text"] = "*",
    vhost: Annotated[str, "of which virtual hosts; * is any text"] = "*",
    queue: Annotated[str, "which queues; * is any text"] = "*",
    minutes: Annotated[int, "for how long; default: 60"] = 60,
    why: Annotated[str, "for those who wonder"],
    by: By = OPERATOR,
) -> "dict[str, Any] | Lasting":
    """Send no notifications about some alerts for a while."""
    now_ms = context.core.now_ms
    given = {"rule": rule, "vhost": vhost, "queue": queue, "until_ms": now_ms + minutes * MINUTE_MS, "why": why}
    begun = begin_silence(book_of(context), given, by, now_ms, name)
    alerts = context.alerts
    return begun.to_dict() if alerts is None else Lasting(begun.to_dict(), lambda: alerts.silenced(begun))


def unsilence(context: OperationContext, name: Name, by: By = OPERATOR) -> "Lasting | None":
    """End a silence."""
    ended, alerts = book_of(context).delete_silence(name), context.alerts
    return None if alerts is None else Lasting(None, lambda: alerts.unsilenced(ended, by))


def history(
    context: OperationContext, limit: Annotated[int, "how many events; default: 100"] = EVENTS
) -> list[dict[str, Any]]:
    """Show what happened to alerts, the newest first."""
    rows = at_work(context).history.recent(max(0, limit))
    return [{"at": time_of(row["at_ms"]), **{name: row.get(name) for name in EVENT}} for row in rows]


def receivers(context: OperationContext) -> list[dict[str, Any]]:
    """List receivers, without their secrets."""
    if context.alerts is not None:
        return context.alerts.receivers()
    return [{**each.shown(), "problem": None, "waiting": 0} for each in book_of(context).receivers()]


def receiver(
    context: OperationContext,
    name: Name,
    definition: Annotated[Mapping[str, Any], "as docs/alerts.md has it; - is the input"],
) -> dict[str, Any]:
    """Make a receiver, or replace one; secrets that are left out stay."""
    return book_of(context).put_receiver({**definition, "name": name}).shown()


def forget(context: OperationContext, name: Name) -> None:
    """Delete a receiver."""
    book_of(context).delete_receiver(name)


def test(context: OperationContext, name: Name) -> Awaitable[dict[str, Any]]:
    """Send a test to a receiver."""
    return at_work(context).test(name)


OPERATIONS = (
    *looks("nodes", MANAGED, {"alerts.firing": firing, "alerts.history": history}),
    *looks("catalog", MANAGED, {"alerts.list": list_all, "alerts.silences": silences}),
    *changes("catalog", ADMINISTERED, {"alerts.set": assign, "alerts.clear": clear}),
    *changes("catalog", POLICIES, {"alerts.silence": silence, "alerts.unsilence": unsilence}),
    *looks("nodes", MONITORED, {"alerts.receivers": receivers}),
    *looks("catalog", MONITORED, ("alerts.look-at-receiver",)),
    *changes("catalog", ADMINISTERED, {"alerts.receiver": receiver, "alerts.forget": forget}),
    *changes("node", ADMINISTERED, {"alerts.test": test}),
)
