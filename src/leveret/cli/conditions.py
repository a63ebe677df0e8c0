"""The flags that say which messages are meant; `peek` and `redrive` have them."""

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from datetime import UTC, datetime
from typing import Any

NAMES = ("contains", "since", "until", "priority_min", "priority_max", "group", "routing_key")


def add_flags(parser: ArgumentParser) -> None:
    """One flag for each condition; a message must meet all that are given."""
    group = parser.add_argument_group("which messages")
    group.add_argument("--contains", metavar="TEXT", help="only with this text in the body")
    group.add_argument("--since", type=time, metavar="TIME", help="only sent then or later: 2026-05-01T12:00")
    group.add_argument("--until", type=time, metavar="TIME", help="only sent before")
    group.add_argument("--priority-min", type=int, metavar="N", help="only of this priority or higher")
    group.add_argument("--priority-max", type=int, metavar="N", help="only of this priority or lower")
    group.add_argument("--group", help="only of this group")
    group.add_argument("--routing-key", metavar="KEY", help="only with this routing key")


def given_conditions(given: Namespace) -> dict[str, Any]:
    """The conditions that were given."""
    return {name: getattr(given, name) for name in NAMES if getattr(given, name) is not None}


def time(text: str) -> datetime:
    """A time; one without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no time: write it as 2026-05-01T12:00:00+02:00") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
