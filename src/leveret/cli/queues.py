"""`leveret queues`: list, look at, make, empty, pause and delete queues."""

import json
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from leveret.cli import connection
from leveret.cli.output import as_json, as_list, print_table
from leveret.cli.parser import JSON, QUEUE, Command, Word, argument, run_word, worded
from leveret.client import calls
from leveret.client.broker import RemoteBroker, RemoteExchange
from leveret.client.queue import RemoteQueue

COLUMNS = ("name", "ready", "leased", "scheduled", "backing_off", "consumers", "paused")
Act = Callable[[RemoteQueue, Namespace], str]


def list_all(given: Namespace) -> int:
    """Print the queues; numbers are sorted from the largest down."""
    with connection.connected(given) as broker:
        rows = [row for row in listed(broker) if row["name"].startswith(given.prefix)]
    rows.sort(key=lambda row: row["name"] if given.sort == "name" else -int(row[given.sort]))
    if given.json:
        print(as_json(rows))
    else:
        print_table(rows, COLUMNS)
    return 0


def listed(broker: RemoteBroker) -> list[calls.Row]:
    """Every queue that one may use."""
    rows: list[calls.Row] = []
    after: str | None = ""
    while after is not None:
        page, after = broker.run(calls.list_queues(after))
        rows += page
    return rows


def show(given: Namespace) -> int:
    """Print the figures of a queue."""
    with connection.connected(given) as broker:
        queue = broker.queue(given.queue, create=False)
        facts = asdict(queue.stats())
        created_at = queue.created_at
        facts["display_name"] = queue.display_name
        facts["created_at"] = None if created_at is None else created_at.isoformat()
    print(as_json(facts) if given.json else as_list(facts))
    return 0


def setting(text: str) -> tuple[str, Any]:
    """A setting of a queue: NAME=VALUE, where a value that is JSON is meant as such."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"it is NAME=VALUE, for example max_length=1000, not {text!r}")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value


def declare(given: Namespace) -> int:
    """Make a queue; one that is there with these settings is no error."""
    with connection.connected(given) as broker:
        broker.queue(given.queue, durable=not given.transient, **dict(given.settings))
    print(f"queue {given.queue!r} is there")
    return 0


def done(act: Act) -> Callable[[Namespace], int]:
    """A word that does something to one queue, and says what."""

    def run(given: Namespace) -> int:
        with connection.connected(given) as broker:
            print(act(broker.queue(given.queue, create=False), given))
        return 0

    return run


def bind(queue: RemoteQueue, given: Namespace) -> str:
    """Let an exchange hand messages to a queue."""
    RemoteExchange(queue.broker, given.exchange).bind(queue.name, given.key)
    return f"queue {queue.name!r} is bound to exchange {given.exchange!r}"


def unbind(queue: RemoteQueue, given: Namespace) -> str:
    """Remove a binding."""
    RemoteExchange(queue.broker, given.exchange).unbind(queue.name, given.key)
    return f"queue {queue.name!r} is not bound to exchange {given.exchange!r} by this key"


def purge(queue: RemoteQueue, given: Namespace) -> str:
    """Remove what is ready."""
    return f"{queue.purge()} messages removed from queue {queue.name!r}"


def delete(queue: RemoteQueue, given: Namespace) -> str:
    """Delete a queue."""
    count = queue.delete(if_unused=not given.force, if_empty=not given.force)
    return f"queue {queue.name!r} deleted with {count} messages"


def pause(queue: RemoteQueue, given: Namespace) -> str:
    """Hand nothing out."""
    queue.pause()
    return f"queue {queue.name!r} paused"


def resume(queue: RemoteQueue, given: Namespace) -> str:
    """Hand messages out again."""
    queue.resume()
    return f"queue {queue.name!r} resumed"


ONE = QUEUE, connection.add_flags
BINDING = (
    QUEUE,
    argument("exchange", metavar="EXCHANGE", help="where messages come from"),
    argument("key", metavar="KEY", nargs="?", default="", help="the binding key; default: an empty one"),
    connection.add_flags,
)
LISTED = (
    argument("--prefix", default="", help="only queues whose name begins like this"),
    argument("--sort", choices=COLUMNS, default="name", help="by which column; default: name"),
    connection.add_flags,
    JSON,
)
DECLARED = (
    QUEUE,
    argument("settings", metavar="NAME=VALUE", nargs="*", type=setting, help="a setting: max_length=1000"),
    argument("--transient", action="store_true", help="it does not survive a restart"),
    connection.add_flags,
)
FORCE = argument("--force", action="store_true", help="also when there are messages or consumers")
WORDS = (
    Word("list", "list queues", LISTED, list_all),
    Word("show", "show the figures of a queue", (*ONE, JSON), show),
    Word("declare", "make a queue", DECLARED, declare),
    Word("bind", "let an exchange hand messages to a queue", BINDING, done(bind)),
    Word("unbind", "remove a binding", BINDING, done(unbind)),
    Word(
        "purge",
        "remove all messages that are ready",
        ONE,
        done(purge),
        "remove all messages of queue {queue!r}",
    ),
    Word("pause", "hand nothing out; publishing goes on", ONE, done(pause)),
    Word("resume", "hand messages out again", ONE, done(resume)),
    Word("delete", "delete a queue", (*ONE, FORCE), done(delete), "delete queue {queue!r}"),
)
COMMAND = Command(
    worded(WORDS),
    run_word,
    (
        "leveret queues declare orders max_length=100000 dead_letter=orders.dead max_deliveries=5",
        "leveret queues bind orders amq.topic 'orders.#'",
        "leveret queues list --sort ready",
        "leveret queues show orders --json",
    ),
)
