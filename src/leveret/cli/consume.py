"""`leveret consume`: take messages from a queue, print them or hand them to a program, and settle them."""

import os
import subprocess
from argparse import Namespace
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from leveret.cli import connection
from leveret.cli.messages import print_message
from leveret.cli.parser import JSON_LINES, QUEUE, Command, argument, positive, whole
from leveret.client.message import RemoteMessage
from leveret.client.queue import RECEIVE_MAX, WAIT_S_MAX, RemoteQueue
from leveret.core.errors import InvalidReceipt, LeveretError

COUNT_MAX = 1_000_000_000
WAIT_S_LONGEST = 10_000_000
REJECTED = 65  # the exit code for data that is wrong (EX_DATAERR): it would be wrong the next time too
LEASE_S = 60.0  # of a message that a program works on; it is extended for as long as that runs
RENEWALS = 3  # in the time of a lease
HEADER_CHARS_MAX = 4_096  # of one variable in the environment of a program

ENDS: dict[str, Callable[[RemoteMessage], None]] = {
    "ack": RemoteMessage.ack,
    "nack": RemoteMessage.nack,
    "reject": RemoteMessage.reject,
}


def run(given: Namespace) -> int:
    """Take messages until there are enough."""
    failed = 0
    with connection.connected(given) as broker:
        queue = broker.queue(given.queue, create=False)
        for batch in taken(queue, given):
            waiting = deque(batch)
            try:
                while waiting:
                    failed += not handled(waiting[0], given)
                    waiting.popleft()
            finally:
                # It was interrupted, or the reader of its output has closed it: other consumers get the rest at once.
                for message in waiting:
                    with suppress(LeveretError):
                        message.nack(0)
    return 1 if failed else 0


def handled(message: RemoteMessage, given: Namespace) -> bool:
    """Print a message, or let a program work on it; False when that failed."""
    if given.exec is not None:
        return worked(message, given.queue, given.exec)
    print_message(message, given.json)
    ENDS[given.end](message)
    return True


def taken(queue: RemoteQueue, given: Namespace) -> Iterator[list[RemoteMessage]]:
    """Batch after batch; no more are taken than are handled at once."""
    left: int | None = given.count
    at_once = 1 if given.exec else RECEIVE_MAX
    while left is None or left > 0:
        count = at_once if left is None else min(left, at_once)
        found = queue.receive(count, given.wait or WAIT_S_MAX, visibility_timeout=LEASE_S if given.exec else None)
        if not found and given.wait:
            return
        if left is not None:
            left -= len(found)
        yield found


def worked(message: RemoteMessage, queue: str, command: str) -> bool:
    """Let a program work on a message, however long it takes; False when it did not succeed."""
    process = subprocess.Popen(command, shell=True, stdin=subprocess.PIPE, env=environment(message, queue))
    body: bytes | None = message.data
    while True:
        try:
            process.communicate(body, timeout=LEASE_S / RENEWALS)
            break
        except subprocess.TimeoutExpired:
            body = None
            try:
                message.extend(LEASE_S)
            except InvalidReceipt:
                process.kill()  # another consumer has the message by now
        except BaseException:
            process.kill()
            process.wait()
            raise
    end = {0: "ack", REJECTED: "reject"}.get(process.returncode, "nack")
    ENDS[end](message)
    return process.returncode == 0


def environment(message: RemoteMessage, queue: str) -> dict[str, str]:
    """What a program is told about a message; the secrets of this command are not among it."""
    own = {name: value for name, value in os.environ.items() if name not in (connection.TOKEN, connection.URL)}
    told = {
        "MESSAGE_ID": message.id,
        "MESSAGE_QUEUE": queue,
        "MESSAGE_DELIVERIES": str(message.deliveries),
        "MESSAGE_ROUTING_KEY": message.routing_key,
        "MESSAGE_CONTENT_TYPE": message.content_type or "",
        **{f"MESSAGE_HEADER_{variable(name)}": str(value) for name, value in message.headers.items()},
    }
    return {**own, **{name: value.replace("\0", "")[:HEADER_CHARS_MAX] for name, value in told.items()}}


def variable(name: str) -> str:
    """The name of a header as one of a variable."""
    return "".join(char.upper() if char.isascii() and char.isalnum() else "_" for char in name)


ARGUMENTS = (
    QUEUE,
    argument("--count", type=whole(1, COUNT_MAX), metavar="N", help="take so many; default: all that come"),
    argument(
        "--wait", type=positive(WAIT_S_LONGEST), metavar="S", help="end when none came for S seconds; default: wait on"
    ),
    argument("--end", choices=tuple(ENDS), default="ack", help="what becomes of them; default: ack"),
    argument(
        "--exec",
        metavar="COMMAND",
        help=f"run this for each message, with the body on its standard input; exit code 0: ack, {REJECTED}: reject, "
        "others: nack",
    ),
    connection.add_flags,
    JSON_LINES,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    (
        "leveret consume orders --count 1",
        "leveret consume orders --json --wait 1",
        "leveret consume orders --count 2 --wait 1 --exec 'wc -c'",
    ),
)
