"""`leveret peek`: look at messages without taking them."""

from argparse import Namespace

from leveret.cli import connection, messages
from leveret.cli.messages import print_messages
from leveret.cli.parser import JSON_LINES, QUEUE, Command, argument, whole

LIMIT_MAX = 1_000  # as the server has it
STATES = ("ready", "leased", "scheduled", "backing_off")


def run(given: Namespace) -> int:
    """Print messages in the order of delivery."""
    with connection.connected(given) as broker:
        queue = broker.queue(given.queue, create=False)
        found = queue.browse(given.limit, state=given.state, **messages.given_conditions(given))
    print_messages(found, given.json, "sent" if given.state == "ready" else "due")
    return 0


ARGUMENTS = (
    QUEUE,
    argument("--limit", type=whole(1, LIMIT_MAX), default=10, metavar="N", help="how many; default: 10"),
    argument("--state", choices=STATES, default="ready", help="which ones; default: ready"),
    messages.add_flags,
    connection.add_flags,
    JSON_LINES,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    ("leveret peek orders --limit 3", "leveret peek orders --contains 'order' --json"),
)
