"""`leveret schedule`: messages that are due later."""

from argparse import Namespace

from leveret.cli import connection
from leveret.cli.messages import print_messages
from leveret.cli.output import as_json
from leveret.cli.parser import JSON, JSON_LINES, QUEUE, Command, Word, argument, run_word, whole, worded
from leveret.cli.peek import LIMIT_MAX
from leveret.core.errors import InvalidArgument, MessageNotFound


def list_all(given: Namespace) -> int:
    """Print what is due later, the next one first."""
    with connection.connected(given) as broker:
        found = broker.queue(given.queue, create=False).scheduled(given.limit)
    print_messages(found, given.json, "due")
    return 0


def cancel(given: Namespace) -> int:
    """Remove messages before they are due; those that are not there are named at the end."""
    if given.all == bool(given.ids):
        raise InvalidArgument("name the ids of messages, or --all")
    with connection.connected(given) as broker:
        queue = broker.queue(given.queue, create=False)
        ids = [each.id for each in queue.scheduled(LIMIT_MAX)] if given.all else given.ids
        missing = [each for each in ids if not queue.cancel(each)]
    done = len(ids) - len(missing)
    print(as_json({"cancelled": done, "missing": missing}) if given.json else f"{done} cancelled", flush=True)
    if missing:
        raise MessageNotFound(
            f"not scheduled in queue '{given.queue}': {', '.join(missing)}; they may be ready already"
        )
    return 0


LISTED = (
    QUEUE,
    argument("--limit", type=whole(1, LIMIT_MAX), default=100, metavar="N", help="how many; default: 100"),
    connection.add_flags,
    JSON_LINES,
)
CANCELLED = (
    QUEUE,
    argument("ids", metavar="ID", nargs="*", help="of a message, from the list"),
    argument("--all", action="store_true", help=f"the next {LIMIT_MAX} that are due later"),
    connection.add_flags,
    JSON,
)
WORDS = (
    Word("list", "list messages that are due later, the next one first", LISTED, list_all),
    Word("cancel", "remove messages before they are due", CANCELLED, cancel),
)
COMMAND = Command(
    worded(WORDS),
    run_word,
    (
        "leveret schedule list orders",
        "leveret schedule cancel orders --all",
    ),
)
