"""Verbs on alerts: rules, who is told, silences, and what happened. What is wrong now only a running server knows."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import Any

from leveret.core.errors import PreconditionFailed
from leveret.observability.alerting.book import Book
from leveret.observability.alerting.payloads import time_of
from leveret.observability.alerting.rules import DEFAULTS
from leveret.observability.alerting.service import Alerting, begin_silence
from leveret.server.administration.context import OPERATOR, Verb, VerbContext

MINUTE_MS = 60_000
EVENTS = 100  # that are told unless others are asked for
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


def book_of(context: VerbContext) -> Book:
    """What is defined: as the server knows it, or as a data directory has it."""
    return Book(context.core) if context.alerts is None else context.alerts.book


def at_work(context: VerbContext) -> Alerting:
    """The server that looks at queues."""
    if context.alerts is None:
        raise PreconditionFailed("no server looks at this directory: start it, then ask again")
    return context.alerts


def list_all(context: VerbContext) -> list[dict[str, Any]]:
    """Every rule."""
    return [rule.to_dict() for rule in book_of(context).rules()]


def assign(
    context: VerbContext,
    name: str,
    figure: str | None = None,
    limit: int | float | None = None,
    clear: int | float | None = None,
    for_s: int | None = None,
    severity: str | None = None,
    vhost: str | None = None,
    queue: str | None = None,
    says: str | None = None,
    enabled: bool | None = None,
) -> dict[str, Any]:
    """A new rule, or one that is changed in what is told."""
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


def clear(context: VerbContext, name: str) -> dict[str, Any]:
    """A rule goes; one that is always there is as it was."""
    book_of(context).delete_rule(name)
    return {"name": name, "left": "as it always is" if name in DEFAULTS else "gone"}


def firing(context: VerbContext) -> list[dict[str, Any]]:
    """What is wrong now."""
    return [{**row, "since": time_of(row["since_ms"])} for row in at_work(context).alerts()]


def silences(context: VerbContext) -> list[dict[str, Any]]:
    """Every silence."""
    now_ms = context.core.now_ms
    return [
        {**each.to_dict(), "minutes_left": max(0, -((now_ms - each.until_ms) // MINUTE_MS))}
        for each in book_of(context).silences()
    ]


def silence(
    context: VerbContext,
    why: str,
    minutes: int = 60,
    rule: str = "*",
    vhost: str = "*",
    queue: str = "*",
    by: str = OPERATOR,
    name: str | None = None,
) -> "dict[str, Any] | Lasting":
    """No notifications are sent about some alerts for a while."""
    now_ms = context.core.now_ms
    given = {"rule": rule, "vhost": vhost, "queue": queue, "until_ms": now_ms + minutes * MINUTE_MS, "why": why}
    begun = begin_silence(book_of(context), given, by, now_ms, name)
    alerts = context.alerts
    return begun.to_dict() if alerts is None else Lasting(begun.to_dict(), lambda: alerts.silenced(begun))


def unsilence(context: VerbContext, name: str, by: str = OPERATOR) -> "Lasting | None":
    """A silence ends."""
    ended, alerts = book_of(context).delete_silence(name), context.alerts
    return None if alerts is None else Lasting(None, lambda: alerts.unsilenced(ended, by))


def history(context: VerbContext, limit: int = EVENTS) -> list[dict[str, Any]]:
    """The last events, the newest first."""
    rows = at_work(context).history.recent(max(0, limit))
    return [{"at": time_of(row["at_ms"]), **{name: row.get(name) for name in EVENT}} for row in rows]


def receivers(context: VerbContext) -> list[dict[str, Any]]:
    """Every receiver, without what is secret about it."""
    if context.alerts is not None:
        return context.alerts.receivers()
    return [{**each.shown(), "problem": None, "waiting": 0} for each in book_of(context).receivers()]


def receiver(context: VerbContext, name: str, definition: Mapping[str, Any]) -> dict[str, Any]:
    """A new receiver, or another in place of one; secrets that are left out stay."""
    return book_of(context).put_receiver({**definition, "name": name}).shown()


def forget(context: VerbContext, name: str) -> None:
    """A receiver is told nothing any more."""
    book_of(context).delete_receiver(name)


def test(context: VerbContext, name: str) -> Awaitable[dict[str, Any]]:
    """Send a test to a receiver; what became of it is told when that is known."""
    found = at_work(context)
    found.book.receiver(name)
    return found.test(name)


VERBS: dict[str, Verb] = {
    "alerts.list": list_all,
    "alerts.set": assign,
    "alerts.clear": clear,
    "alerts.firing": firing,
    "alerts.silences": silences,
    "alerts.silence": silence,
    "alerts.unsilence": unsilence,
    "alerts.history": history,
    "alerts.receivers": receivers,
    "alerts.receiver": receiver,
    "alerts.forget": forget,
    "alerts.test": test,
}
