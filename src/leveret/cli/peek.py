"""`leveret peek`: look at messages without taking them."""

from argparse import ArgumentParser, Namespace

from leveret.cli import connection, messages
from leveret.cli.messages import print_messages
from leveret.cli.parser import Command, whole

LIMIT_MAX = 1_000  # as the server has it
STATES = ("ready", "leased", "scheduled", "backing_off")


def configure(parser: ArgumentParser) -> None:
    """Its arguments."""
    parser.add_argument("queue", metavar="QUEUE", help="its name")
    parser.add_argument("--limit", type=whole(1, LIMIT_MAX), default=10, metavar="N", help="how many; default: 10")
    parser.add_argument("--state", choices=STATES, default="ready", help="which ones; default: ready")
    messages.add_flags(parser)
    connection.add_flags(parser)
    parser.add_argument("--json", action="store_true", help="print an object in each line")


def run(given: Namespace) -> int:
    """Print messages in the order of delivery."""
    with connection.connected(given) as broker:
        queue = broker.queue(given.queue, declare=False)
        found = queue.browse(given.limit, state=given.state, **messages.given_conditions(given))
    print_messages(found, given.json, "sent" if given.state == "ready" else "due")
    return 0


COMMAND = Command(
    "peek",
    "look at messages without taking them",
    configure,
    run,
    ("leveret peek orders --limit 3", "leveret peek orders --contains 'order' --json"),
)
