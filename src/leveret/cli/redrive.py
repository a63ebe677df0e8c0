"""`leveret redrive`: move messages, mostly dead letters back to where they died."""

from argparse import Namespace
from dataclasses import asdict

from leveret.cli import connection, messages
from leveret.cli.messages import print_messages
from leveret.cli.output import ProgressLine, as_json
from leveret.cli.parser import JSON, Command, argument, positive, whole
from leveret.cli.publish import RATE_MAX
from leveret.client.queue import RemoteQueue
from leveret.runtime.redrive import RedriveResult

LIMIT_MAX = 10_000_000  # of one request, as the server has it
STEP_S = 5.0  # a redrive with a rate is asked for in pieces of so many seconds
SAMPLE = 10  # messages that a preview shows


def run(given: Namespace) -> int:
    """Move what is meant, or show it."""
    with connection.connected(given) as broker:
        queue = broker.queue(given.queue, create=False)
        if given.preview:
            return preview(queue, given)
        result = moved(queue, given)
    told = f"{result.moved} moved, {result.skipped} skipped (their queue is gone or full)"
    print(as_json(asdict(result)) if given.json else told)
    return 1 if result.skipped else 0


def preview(queue: RemoteQueue, given: Namespace) -> int:
    """Say how many there are, and show some."""
    meant = messages.given_conditions(given)
    result = queue.redrive(given.to, limit=given.limit, dry_run=True, **meant)
    if given.json:
        print(as_json({"matched": result.matched}))
        return 0
    print_messages(queue.browse(SAMPLE, **meant), False)
    print(f"{result.matched} would be moved")
    return 0


def moved(queue: RemoteQueue, given: Namespace) -> RedriveResult:
    """Move messages; with a rate piece by piece, so that one sees how far it is."""
    meant = messages.given_conditions(given)
    if given.rate is None:
        return queue.redrive(given.to, limit=given.limit, **meant)
    total = given.limit or queue.redrive(given.to, dry_run=True, **meant).matched
    sum_ = RedriveResult()
    with ProgressLine("moving", total) as progress:
        while sum_.matched < total:
            piece = min(total - sum_.matched, max(1, int(given.rate * STEP_S)))
            found = queue.redrive(given.to, limit=piece, rate=given.rate, **meant)
            sum_ = RedriveResult(sum_.matched + found.matched, sum_.moved + found.moved, sum_.skipped + found.skipped)
            progress.add(found.matched)
            if found.moved < piece:
                break  # there are no more, or the next piece would meet the same that cannot be moved
    return sum_


ARGUMENTS = (
    argument("queue", metavar="QUEUE", help="where they are now"),
    argument("--to", metavar="QUEUE", help="where they go; default: each where it died first"),
    argument("--limit", type=whole(1, LIMIT_MAX), metavar="N", help="move at most so many"),
    argument("--rate", type=positive(RATE_MAX), metavar="N", help="at most so many in a second"),
    argument("--preview", action="store_true", help=f"move none: count them, and show the first {SAMPLE}"),
    messages.add_flags,
    connection.add_flags,
    JSON,
)
COMMAND = Command(
    ARGUMENTS,
    run,
    (
        "leveret redrive orders.dead --preview --contains timeout",
        "leveret redrive orders.dead --limit 1000 --rate 200",
        "leveret redrive orders.dead --to orders",
    ),
)
