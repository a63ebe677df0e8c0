"""`leveret pipeline redrive`: messages that wait in a queue, mostly dead letters, go back to where they came from."""

from leveret.client.broker import connect
from leveret.core.errors import InvalidArgument
from leveret.spark.commands.context import Context, Outcome
from leveret.spark.commands.replay import told
from leveret.spark.edits import Aim
from leveret.spark.publishing import Pace, SinkBroker
from leveret.spark.redrive import redrive
from leveret.spark.replay import ReplayRequest, dry_run
from leveret.spark.transfer import Transfer, transfer


def run(context: Context) -> Outcome:
    """Move messages, or tell what would be moved."""
    given = context.given
    request = ReplayRequest(given.where, tuple(given.set), Aim(given.to_queue, given.to_exchange), given.limit)
    pace = Pace(given.rate)
    changed = bool(request.edits) or request.aim.exchange is not None
    if changed and not given.dry_run and given.checkpoint is None:
        raise InvalidArgument("messages that are changed, or go to an exchange, need a --checkpoint DIRECTORY")
    broker = SinkBroker(given.url, given.token)
    broker.check(given.queue)
    with context.spark() as (spark, status):
        status.tell("choosing messages")
        if given.dry_run:
            return told("would move", dry_run(broker.browsed(spark, given.queue), request))
        if changed:
            job = Transfer(broker, given.queue, request)
            done = transfer(spark, job, given.checkpoint, pace, given.batch_rows, status.share)
        else:
            with connect(given.url, token=given.token) as client:
                queue = client.queue(given.queue, create=False)
                rows = broker.browsed(spark, given.queue)
                done = redrive(rows, given.where, given.limit, queue, request.aim.queue, pace, status.share)
    return Outcome({"matched": done.matched, "moved": done.moved, "skipped": done.skipped})
