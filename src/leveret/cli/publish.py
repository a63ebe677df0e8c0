"""`leveret publish`: send messages to a queue or through an exchange."""

import json
import sys
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import repeat
from typing import Any, BinaryIO

from leveret.cli import connection
from leveret.cli.output import ProgressLine, as_json
from leveret.cli.parser import Command, positive, whole
from leveret.client.broker import RemoteBroker, RemoteExchange
from leveret.core.errors import InvalidArgument

COUNT_MAX = 100_000_000
RATE_MAX = 1_000_000.0
BODY_BYTES_MAX = 128 << 20  # it is read into memory
BATCH = 500  # messages of one request
BATCH_BYTES = 4 << 20
STEPS_PER_SECOND = 10  # of a publish with a rate
STDIO = "-"

Send = Callable[[list[bytes]], list[str | None]]


def configure(parser: ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("to", metavar="TO", help="the queue; with --exchange the routing key")
    parser.add_argument("body", metavar="BODY", nargs="?", help="the body; default: the standard input")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--file", metavar="FILE", help="file with the body")
    source.add_argument("--lines", metavar="FILE", help="file with a body in each line; - is the standard input")
    parser.add_argument("--exchange", metavar="NAME", help="publish to this exchange")
    parser.add_argument(
        "--header", action="append", type=header, metavar="NAME=VALUE", help="a header; may be repeated"
    )
    parser.add_argument("--priority", type=whole(1, 10), metavar="N", help="higher ones are received first")
    parser.add_argument("--delay", type=positive(1e9), metavar="S", help="seconds until it can be received")
    parser.add_argument("--ttl", type=positive(1e9), metavar="S", help="seconds until it expires")
    parser.add_argument("--group", metavar="NAME", help="the group that it is ordered in")
    parser.add_argument("--dedup-id", metavar="TEXT", help="a second message with this id is not stored")
    parser.add_argument("--content-type", metavar="TYPE", default="text/plain", help="default: text/plain")
    parser.add_argument(
        "--count", type=whole(1, COUNT_MAX), default=1, metavar="N", help="send it so often; default: 1"
    )
    parser.add_argument("--rate", type=positive(RATE_MAX), metavar="N", help="at most so many in a second")
    connection.add_flags(parser)
    parser.add_argument("--json", action="store_true", help="print JSON")


def header(text: str) -> tuple[str, Any]:
    """A header; a value that is a number, true, false or null in JSON is one."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ArgumentTypeError(f"it is NAME=VALUE, not {text!r}")
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return name, value
    return name, value if isinstance(parsed, dict | list | str) else parsed


def run(given: Namespace) -> int:
    """Send everything; fails when a message had no route."""
    if given.body is not None and (given.file or given.lines):
        raise InvalidArgument("the body is given twice: leave BODY out, or --file and --lines")
    total = None if given.lines else given.count
    sent = unrouted = 0
    ids: list[str | None] = []
    with connection.connected(given) as broker, ProgressLine("publishing", total) as progress:
        send = sender(broker, given)
        for batch in paced(bodies(given), given.rate):
            ids = send(batch)
            sent += len(ids)
            unrouted += ids.count(None)
            progress.add(len(ids))
    told: dict[str, Any] = {"sent": sent, "unrouted": unrouted, **({"id": ids[0]} if sent == 1 else {})}
    print(as_json(told) if given.json else sentence(sent, unrouted))
    return 1 if unrouted else 0


def sentence(sent: int, unrouted: int) -> str:
    """What became of the messages."""
    what = "1 message" if sent == 1 else f"{sent} messages"
    return f"{what} sent" + (f", {unrouted} of them without a route" if unrouted else "")


def sender(broker: RemoteBroker, given: Namespace) -> Send:
    """What sends a batch; gives an id for each message, None for one without a route."""
    names = ("priority", "delay", "ttl", "group", "dedup_id")
    options: dict[str, Any] = {name: getattr(given, name) for name in names}
    options["headers"] = dict(given.header) if given.header else None
    options["properties"] = {"content_type": given.content_type}
    if given.exchange is None:
        queue = broker.queue(given.to, create=False)
        return lambda batch: queue.send_many(batch, **options)
    exchange = RemoteExchange(broker, given.exchange)
    return lambda batch: [exchange.publish(given.to, body, **options) for body in batch]


def bodies(given: Namespace) -> Iterator[bytes]:
    """The bodies to send, one after the other."""
    if given.lines is not None:
        yield from lines_of(given.lines)
        return
    if given.body is not None:
        body = given.body.encode(errors="surrogateescape")
    else:
        with opened(given.file or STDIO) as file:
            body = file.read(BODY_BYTES_MAX + 1)
        check_size(body)
    yield from repeat(body, given.count)


def lines_of(path: str) -> Iterator[bytes]:
    """Every line of a file that is not empty."""
    with opened(path) as file:
        while line := file.readline(BODY_BYTES_MAX + 2):
            line = line.rstrip(b"\r\n")
            check_size(line)
            if line:
                yield line


def opened(path: str) -> Any:
    """A file, or the standard input, which stays open."""
    file: BinaryIO = sys.stdin.buffer
    return nullcontext(file) if path == STDIO else open(path, "rb")


def check_size(body: bytes) -> None:
    """Refuse a body that no server would take."""
    if len(body) > BODY_BYTES_MAX:
        raise InvalidArgument(f"a body is over {BODY_BYTES_MAX} bytes: send a reference to it")


def paced(bodies: Iterable[bytes], rate: float | None) -> Iterator[list[bytes]]:
    """Bodies in batches, no faster than the rate."""
    began_s, done = time.monotonic(), 0
    size = BATCH if rate is None else max(1, min(BATCH, int(rate / STEPS_PER_SECOND)))
    for batch in batches(iter(bodies), size):
        yield batch
        done += len(batch)
        if rate is not None:
            time.sleep(max(0.0, began_s + done / rate - time.monotonic()))


def batches(bodies: Iterator[bytes], size: int) -> Iterator[list[bytes]]:
    """Bodies in portions of a bounded number and, but for one large body, a bounded size."""
    batch: list[bytes] = []
    total = 0
    for body in bodies:
        if batch and (len(batch) >= size or total + len(body) > BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(body)
        total += len(body)
    if batch:
        yield batch


COMMAND = Command(
    (configure,),
    run,
    (
        """leveret publish orders '{"order": 1}' --content-type application/json --header region=eu""",
        "leveret publish orders.eu.created hello --exchange amq.topic",
        "seq 1000 | leveret publish orders --lines - --rate 5000",
        "leveret publish orders 'remind me' --delay 3600",
    ),
)
