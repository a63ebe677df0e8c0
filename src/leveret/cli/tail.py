"""`leveret tail`: follow messages as they are published, without taking any from those they are for.

Records of a stream are read from where they are. For others a queue of its own is bound for as long as it runs, to an
exchange or to whatever a given queue is bound to. The server deletes it when it is not used any more, whatever happened
to the command.
"""

import secrets
import time
from argparse import Namespace
from urllib.parse import quote, unquote

from leveret.cli import connection
from leveret.cli.consume import COUNT_MAX, WAIT_S_LONGEST
from leveret.cli.messages import print_message
from leveret.cli.parser import JSON_LINES, Command, argument, positive, whole
from leveret.client.broker import RemoteBroker, RemoteExchange
from leveret.client.queue import RECEIVE_MAX, RemoteQueue
from leveret.client.stream import RemoteStream
from leveret.core.errors import InvalidArgument, NotFound

EXPIRES_S = 120  # after which a queue that is not used any more is deleted
LENGTH_MAX = 10_000  # a slow terminal misses old messages; the memory of the server does not fill
POLL_S = 20.0
TURN_S = 0.5  # for which one partition of a stream is waited for
PLACE_HELP = "where in a stream: first, last, next, an offset, or a time ago such as 1h; default: next"


def run(given: Namespace) -> int:
    """Print copies of messages as they come."""
    if [given.queue, given.exchange, given.stream].count(None) != 2:
        raise InvalidArgument("name a queue, or an exchange by --exchange, or a stream by --stream")
    with connection.connected(given) as broker, connection.connected(given, vhost=False) as server:
        if given.stream is not None:
            return follow_stream(RemoteStream(broker, given.stream), given)
        sources = bindings(server, given)
        copies = broker.queue(
            f"leveret.tail.{secrets.token_hex(6)}",
            durable=False,
            expires=EXPIRES_S,
            max_length=LENGTH_MAX,
            overflow="drop-head",
        )
        try:
            for exchange, key in sources:
                RemoteExchange(broker, exchange).bind(copies.name, key)
            follow(copies, given)
        finally:
            copies.delete()
    return 0


def bindings(server: RemoteBroker, given: Namespace) -> list[tuple[str, str]]:
    """Where copies come from: exchanges and keys."""
    if given.exchange is not None:
        return [(given.exchange, given.key)]
    vhost = quote(connection.target(given).vhost or "/", safe="")
    try:
        rows = connection.ask(server, f"/queues/{vhost}/{quote(given.queue, safe='')}/bindings")
    except NotFound:
        raise NotFound(f"no queue '{given.queue}' in vhost '{unquote(vhost)}': see `leveret queues list`") from None
    found = [(row["source"], row["routing_key"]) for row in rows if row["source"]]
    if not found:
        raise InvalidArgument(
            f"queue '{given.queue}' is bound to no exchange, and what is sent straight to it has no copies: use peek"
        )
    return found


def follow(copies: RemoteQueue, given: Namespace) -> None:
    """Print what comes until there was enough of it."""
    left: int | None = given.count
    while left is None or left > 0:
        found = copies.receive(RECEIVE_MAX if left is None else min(left, RECEIVE_MAX), given.wait or POLL_S)
        if not found and given.wait:
            return
        for message in found:
            print_message(message, given.json)
        copies.ack_many(found)
        if left is not None:
            left -= len(found)


def follow_stream(stream: RemoteStream, given: Namespace) -> int:
    """Print the records of all partitions; what several have is not in the order of time."""
    readers = [stream.reader(partition, given.place) for partition in range(stream.partitions)]
    left: int | None = given.count
    quiet_since_s = time.monotonic()
    while left is None or left > 0:
        for reader in readers:
            most = RECEIVE_MAX if left is None else min(left, RECEIVE_MAX)
            for record in reader.read(most, wait=min(given.wait or POLL_S, TURN_S)) if most else []:
                print_message(record, given.json)
                quiet_since_s = time.monotonic()
                left = None if left is None else left - 1
        if given.wait and time.monotonic() - quiet_since_s >= given.wait:
            break
    return 0


def place(text: str) -> int | str:
    """Where to begin in a stream; the server knows the words."""
    return int(text) if text.isascii() and text.isdigit() else text


ARGUMENTS = (
    argument("queue", metavar="QUEUE", nargs="?", help="follow what is published to its bindings"),
    argument("--exchange", metavar="NAME", help="follow an exchange instead"),
    argument("--stream", metavar="NAME", help="follow a stream instead"),
    argument("--from", dest="place", type=place, default="next", metavar="PLACE", help=PLACE_HELP),
    argument("--key", default="#", help="only this binding key; default: #, which is all of a topic exchange"),
    argument("--count", type=whole(1, COUNT_MAX), metavar="N", help="end after so many"),
    argument("--wait", type=positive(WAIT_S_LONGEST), metavar="S", help="end when none came for S seconds"),
    connection.add_flags,
    JSON_LINES,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    ("leveret tail --exchange amq.topic --key 'orders.#' --wait 1", "leveret tail orders --json --count 10 --wait 1"),
)
