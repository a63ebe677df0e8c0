"""A notice in the words of each kind of receiver. docs/alerts.md has the body of a webhook.

Names of queues come from clients: nothing in them becomes markup, a header or another line.
"""

import json
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Any

from leveret.clock import iso_second
from leveret.observability.alerting.engine import Alert
from leveret.observability.alerting.notifications import Notice

VERSION = 1
LISTED_MAX = 50  # alerts that one notice tells about; of the others it tells how many there are
SHORT_MAX = 10  # and in a chat
SUBJECT_NAMES_MAX = 3
NAME_CHARS_MAX = 100


def time_of(at_ms: int) -> str:
    """A time for programs and people: UTC, to the second."""
    return iso_second(at_ms // 1_000) + "Z"


def webhook(notice: Notice, node: str) -> bytes:
    """The body of a webhook."""
    rule = notice.rule
    listed = [_row(alert) for alert in _listed(notice)]
    body = {
        "version": VERSION,
        "status": notice.status,
        "receiver": notice.receiver.name,
        "node": node,
        "sent_at": time_of(notice.at_ms),
        "rule": {
            "name": rule.name,
            "figure": rule.figure,
            "limit": rule.limit,
            "unit": rule.unit,
            "severity": rule.severity,
            "says": rule.says,
        },
        "alerts": listed,
        "more": len(notice.firing) + len(notice.resolved) - len(listed),
    }
    return json.dumps(body).encode()


def slack(notice: Notice, node: str) -> bytes:
    """The body for a chat: one text, in which three characters mean something."""
    text = "\n".join([f"*{headline(notice)}* on {_name(node)}", *lines(notice, SHORT_MAX)])
    for plain, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return json.dumps({"text": text}).encode()


def mail(notice: Notice, node: str) -> EmailMessage:
    """A letter."""
    receiver = notice.receiver
    letter = EmailMessage()
    letter["Subject"] = headline(notice)
    letter["From"] = receiver.sender
    letter["To"] = ", ".join(receiver.to)
    letter["Date"] = format_datetime(datetime.fromtimestamp(notice.at_ms // 1_000, UTC))
    letter["Message-ID"] = make_msgid(domain="leveret.invalid")
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content("\n".join([*lines(notice, LISTED_MAX), "", f"Sent by Leveret on {_name(node)}."]) + "\n")
    return letter


def headline(notice: Notice) -> str:
    """A notice in one line."""
    if notice.test:
        return "[TEST] Leveret can tell you about alerts"
    alerts = notice.firing or notice.resolved
    names = ", ".join(_name(alert.key[2]) for alert in alerts[:SUBJECT_NAMES_MAX])
    more = f" and {len(alerts) - SUBJECT_NAMES_MAX} more" if len(alerts) > SUBJECT_NAMES_MAX else ""
    return f"[{notice.status.upper()} {len(alerts)}] {notice.rule.severity} {notice.rule.name}: {names}{more}"


def lines(notice: Notice, most: int) -> list[str]:
    """One line for what the rule says, and one for each alert."""
    if notice.test:
        return ["This is a test. Nothing is wrong."]
    rule = notice.rule
    shown = _listed(notice)[:most]
    told = [f"{rule.says or rule.name} (limit: {rule.limit:,g} {rule.unit})", *map(_line, shown)]
    more = len(notice.firing) + len(notice.resolved) - len(shown)
    return [*told, f"and {more} more"] if more else told


def _line(alert: Alert) -> str:
    _, vhost, queue = alert.key
    value = f"{alert.value:,g} {alert.rule.unit}"
    return f"{alert.state}: {_name(queue)} in {_name(vhost)}: {value} since {time_of(alert.since_ms)}"


def _listed(notice: Notice) -> tuple[Alert, ...]:
    return (*notice.firing, *notice.resolved)[:LISTED_MAX]


def _row(alert: Alert) -> dict[str, Any]:
    _, vhost, queue = alert.key
    return {
        "status": alert.state,
        "vhost": vhost,
        "queue": queue,
        "value": alert.value,
        "worst": alert.worst,
        "since": time_of(alert.since_ms),
    }


def _name(name: str) -> str:
    """A name on one line."""
    shown = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in name)
    return shown if len(shown) <= NAME_CHARS_MAX else shown[: NAME_CHARS_MAX - 3] + "..."
