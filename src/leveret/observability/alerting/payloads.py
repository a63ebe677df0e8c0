"""A notification in the words of each kind of receiver. docs/alerts.md has the body of a webhook.

Names of queues come from clients: nothing in them becomes markup, a header or another line.
"""

import json
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, make_msgid
from typing import Any

from leveret.clock import iso_second
from leveret.observability.alerting.engine import Alert
from leveret.observability.alerting.notifications import Notification

VERSION = 1
LISTED_MAX = 50  # alerts that one notification tells about; of the others it tells how many there are
SHORT_MAX = 10  # and in a chat
SUBJECT_NAMES_MAX = 3
NAME_CHARS_MAX = 100


def time_of(at_ms: int) -> str:
    """A time for programs and people: UTC, to the second."""
    return iso_second(at_ms // 1_000) + "Z"


def webhook(notification: Notification, node: str) -> bytes:
    """The body of a webhook."""
    rule = notification.rule
    listed = [_row(alert) for alert in _listed(notification)]
    body = {
        "version": VERSION,
        "status": notification.status,
        "receiver": notification.receiver.name,
        "node": node,
        "sent_at": time_of(notification.at_ms),
        "rule": {
            "name": rule.name,
            "figure": rule.figure,
            "limit": rule.limit,
            "unit": rule.unit,
            "severity": rule.severity,
            "says": rule.says,
        },
        "alerts": listed,
        "more": len(notification.firing) + len(notification.resolved) - len(listed),
    }
    return json.dumps(body).encode()


def slack(notification: Notification, node: str) -> bytes:
    """The body for a chat: one text, in which three characters mean something."""
    text = "\n".join([f"*{headline(notification)}* on {_name(node)}", *lines(notification, SHORT_MAX)])
    for plain, escaped in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(plain, escaped)
    return json.dumps({"text": text}).encode()


def mail(notification: Notification, node: str) -> EmailMessage:
    """An e-mail."""
    receiver = notification.receiver
    mail_message = EmailMessage()
    mail_message["Subject"] = headline(notification)
    mail_message["From"] = receiver.sender
    mail_message["To"] = ", ".join(receiver.to)
    mail_message["Date"] = format_datetime(datetime.fromtimestamp(notification.at_ms // 1_000, UTC))
    mail_message["Message-ID"] = make_msgid(domain="leveret.invalid")
    mail_message["Auto-Submitted"] = "auto-generated"
    mail_message.set_content(
        "\n".join([*lines(notification, LISTED_MAX), "", f"Sent by Leveret on {_name(node)}."]) + "\n"
    )
    return mail_message


def headline(notification: Notification) -> str:
    """A notification in one line."""
    if notification.test:
        return "[TEST] Leveret can tell you about alerts"
    alerts = notification.firing or notification.resolved
    names = ", ".join(_name(alert.key[2]) for alert in alerts[:SUBJECT_NAMES_MAX])
    more = f" and {len(alerts) - SUBJECT_NAMES_MAX} more" if len(alerts) > SUBJECT_NAMES_MAX else ""
    rule = notification.rule
    return f"[{notification.status.upper()} {len(alerts)}] {rule.severity} {rule.name}: {names}{more}"


def lines(notification: Notification, most: int) -> list[str]:
    """One line for what the rule says, and one for each alert."""
    if notification.test:
        return ["This is a test. Nothing is wrong."]
    rule = notification.rule
    shown = _listed(notification)[:most]
    told = [f"{rule.says or rule.name} (limit: {rule.limit:,g} {rule.unit})", *map(_line, shown)]
    more = len(notification.firing) + len(notification.resolved) - len(shown)
    return [*told, f"and {more} more"] if more else told


def _line(alert: Alert) -> str:
    _, vhost, queue = alert.key
    value = f"{alert.value:,g} {alert.rule.unit}"
    return f"{alert.state}: {_name(queue)} in {_name(vhost)}: {value} since {time_of(alert.since_ms)}"


def _listed(notification: Notification) -> tuple[Alert, ...]:
    return (*notification.firing, *notification.resolved)[:LISTED_MAX]


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
