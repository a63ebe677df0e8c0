"""Messages as commands print them: bodies and tables for people, an object in each line for programs."""

import base64
import json
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from leveret.cli.output import cell, print_table
from leveret.client.message import RemotePeeked, RemoteRecord
from leveret.core.jsonable import encode

COLUMNS = ("id", "sent", "deliveries", "priority", "routing_key", "body")
BODY_CHARS = 60  # of a body in a table


def as_object(message: RemotePeeked) -> dict[str, Any]:
    """Everything that is known of a message; a body that is not text is in base64."""
    found = {
        "id": message.id,
        "sent": message.enqueued_at.isoformat(),
        "due": None if message.due_at is None else message.due_at.isoformat(),
        "state": message.state,
        "deliveries": message.deliveries,
        "priority": message.priority or None,
        "exchange": message.exchange or None,
        "routing_key": message.routing_key or None,
        "group": message.group,
        "content_type": message.content_type,
        "headers": encode(message.headers) or None,
        **body_of(message.data),
    }
    return {name: value for name, value in found.items() if value is not None}


def record_object(record: RemoteRecord) -> dict[str, Any]:
    """Everything that is known of a record of a stream."""
    found = {
        "partition": record.partition,
        "offset": record.offset,
        "sent": record.timestamp.isoformat(),
        "key": record.key,
        "exchange": record.exchange or None,
        "routing_key": record.routing_key or None,
        "content_type": record.properties.content_type,
        "headers": encode(record.headers) or None,
        **body_of(record.data),
    }
    return {name: value for name, value in found.items() if value is not None}


def body_of(data: bytes) -> dict[str, str]:
    """A body for JSON."""
    try:
        return {"body": data.decode()}
    except UnicodeDecodeError:
        return {"body_base64": base64.b64encode(data).decode()}


def print_message(message: RemotePeeked | RemoteRecord, as_json: bool) -> None:
    """Print one message: as JSON in one line, or its body."""
    if as_json:
        told = record_object(message) if isinstance(message, RemoteRecord) else as_object(message)
        print(json.dumps(told), flush=True)
    elif sys.stdout.isatty():
        print(cell(message.data.decode(errors="replace")), flush=True)
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(message.data + b"\n")
        sys.stdout.buffer.flush()


def print_messages(messages: Sequence[RemotePeeked], as_json: bool, when: str = "sent") -> None:
    """Print messages that were looked at; `when` is the time that the table shows."""
    if as_json:
        for each in messages:
            print_message(each, True)
        return
    rows = [row_of(each) for each in messages]
    print_table(rows, [when if column == "sent" else column for column in COLUMNS])


def row_of(message: RemotePeeked) -> dict[str, Any]:
    """A message in a table."""
    text = message.data[: 4 * BODY_CHARS].decode(errors="replace")
    return {
        "id": message.id,
        "sent": message.enqueued_at.isoformat(timespec="seconds"),
        "due": None if message.due_at is None else message.due_at.isoformat(timespec="seconds"),
        "deliveries": message.deliveries,
        "priority": message.priority or None,
        "routing_key": message.routing_key,
        "body": text if len(text) <= BODY_CHARS else text[: BODY_CHARS - 1] + "…",
    }


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
