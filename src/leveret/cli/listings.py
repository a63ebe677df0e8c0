"""`leveret exchanges`, `bindings`, `connections`, `channels`, `consumers`: what the management API lists, as tables."""

from argparse import Namespace
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote

from leveret.cli import connection
from leveret.cli.output import as_json, print_table
from leveret.cli.parser import JSON, Command, Word, argument, run_word, worded
from leveret.client.calls import ClientCall

ROOT_VHOST = "/"


class Listing(NamedTuple):
    """A list of the management API: where it is, for all virtual hosts and for one, and its columns."""

    path: str
    of_vhost: str
    columns: tuple[str, ...]


LISTINGS = {
    "exchanges": Listing("exchanges", "exchanges/{}", ("vhost", "name", "type", "durable", "auto_delete", "internal")),
    "bindings": Listing(
        "bindings", "bindings/{}", ("vhost", "source", "destination_type", "destination", "routing_key", "arguments")
    ),
    "connections": Listing(
        "connections",
        "vhosts/{}/connections",
        ("name", "user", "vhost", "state", "channels", "client_properties.connection_name", "ssl"),
    ),
    "channels": Listing(
        "channels",
        "vhosts/{}/channels",
        ("name", "user", "vhost", "prefetch_count", "messages_unacknowledged", "consumer_count", "confirm"),
    ),
    "consumers": Listing(
        "consumers",
        "consumers/{}",
        (
            "queue.vhost",
            "queue.name",
            "consumer_tag",
            "ack_required",
            "prefetch_count",
            "active",
            "channel_details.name",
        ),
    ),
}


def show(name: str, given: Namespace) -> int:
    """Print a list; without --vhost, that of all virtual hosts that the user may enter."""
    listing = LISTINGS[name]
    vhost = connection.target(given).vhost
    path = listing.path if vhost is None else listing.of_vhost.format(quote(vhost, safe=""))
    with connection.connected(given, vhost=False) as broker:
        rows: list[dict[str, Any]] = connection.ask(broker, f"/{path}")
    if given.json:
        print(as_json(rows))
    else:
        nodes = {row["node"] for row in rows if "node" in row}
        print_table(rows, listing.columns + (("node",) if len(nodes) > 1 else ()))
    return 0


def change(method: str, path: Callable[[Namespace], str], said: str, given: Namespace) -> int:
    """Make, delete or close what is at a path; say so."""
    body = {name: getattr(given, name) for name in ("type", "durable", "auto_delete", "internal") if name in given}
    with connection.connected(given, vhost=False) as broker:
        broker.run(ClientCall(method, f"/api/{path(given)}", lambda _: None, body or None))
    print(said.format(**vars(given)))
    return 0


def exchange_path(given: Namespace) -> str:
    """Where an exchange is."""
    vhost = connection.target(given).vhost or ROOT_VHOST
    return f"exchanges/{quote(vhost, safe='')}/{quote(given.exchange, safe='')}"


def exchange_deletion(given: Namespace) -> str:
    """Where an exchange is deleted."""
    return f"{exchange_path(given)}{'' if given.force else '?if-unused=true'}"


def connection_path(given: Namespace) -> str:
    """Where a connection is."""
    return f"connections/{quote(given.connection, safe='')}"


EXCHANGE = argument("exchange", metavar="EXCHANGE", help="its name")
DECLARED = (
    EXCHANGE,
    argument("type", metavar="TYPE", nargs="?", default="direct", help="such as fanout; default: direct"),
    argument("--transient", dest="durable", action="store_false", help="it does not survive a restart"),
    argument("--auto-delete", action="store_true", help="it goes with its last binding"),
    argument("--internal", action="store_true", help="only exchanges publish to it"),
    connection.add_flags,
)
DELETED = EXCHANGE, argument("--force", action="store_true", help="also when there are bindings"), connection.add_flags
CLOSED = argument("connection", metavar="NAME", help="its name, as it is listed"), connection.add_flags


def listed(name: str) -> Word:
    """The word `list` of a command."""
    return Word("list", f"list {name}", (connection.add_flags, JSON), partial(show, name))


COMMANDS = {
    "exchanges": Command(
        worded(
            (
                listed("exchanges"),
                Word(
                    "declare",
                    "make an exchange",
                    DECLARED,
                    partial(change, "PUT", exchange_path, "exchange {exchange!r} is there"),
                ),
                Word(
                    "delete",
                    "delete an exchange",
                    DELETED,
                    partial(change, "DELETE", exchange_deletion, "exchange {exchange!r} deleted"),
                    "delete exchange {exchange!r} and its bindings",
                ),
            )
        ),
        run_word,
        ("leveret exchanges declare events topic", "leveret exchanges list --vhost /"),
    ),
    "bindings": Command(worded((listed("bindings"),)), run_word, ("leveret bindings list --json",)),
    "connections": Command(
        worded(
            (
                listed("connections"),
                Word(
                    "close",
                    "close a connection; its client may connect again",
                    CLOSED,
                    partial(change, "DELETE", connection_path, "connection {connection!r} closed"),
                    "close connection {connection!r}",
                ),
            )
        ),
        run_word,
        ("leveret connections list",),
    ),
    "channels": Command(worded((listed("channels"),)), run_word, ("leveret channels list",)),
    "consumers": Command(worded((listed("consumers"),)), run_word, ("leveret consumers list",)),
}
