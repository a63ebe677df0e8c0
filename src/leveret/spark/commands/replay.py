"""`leveret pipeline replay`: messages of the archive or journal are published again."""

from leveret.core.errors import InvalidArgument
from leveret.spark.commands.context import Context, Outcome, PrintedRows
from leveret.spark.edits import Aim
from leveret.spark.publishing import Pace, SinkBroker
from leveret.spark.replay import DryRun, ReplayRequest, dry_run, replay


def run(context: Context) -> Outcome:
    """Publish messages again, or tell what would be published."""
    given = context.given
    request = ReplayRequest(given.where, tuple(given.set), Aim(given.to_queue, given.to_exchange), given.limit)
    pace = Pace(given.rate)
    if not given.dry_run and (given.url is None or given.checkpoint is None):
        raise InvalidArgument("give --url of the broker and --checkpoint DIRECTORY to resume from, or --dry-run")
    with context.spark() as (spark, status):
        status.tell("choosing messages")
        messages = context.table(spark, "messages")
        if given.dry_run:
            return told("would publish", dry_run(messages, request))
        broker = SinkBroker(given.url, given.token)
        state = replay(messages, request, given.checkpoint, broker.publish, pace, given.batch_rows, status.share)
    return Outcome({"published": state.published, "batches": state.done, "checkpoint": given.checkpoint})


def told(what: str, found: DryRun) -> Outcome:
    """A dry run as it is printed."""
    listings = (
        PrintedRows("targets", ("exchange", "routing_key", "messages"), found.targets),
        PrintedRows("sample", ("exchange", "routing_key", "message_id", "body"), found.sample),
    )
    return Outcome({what: found.messages, "without body": found.without_body}, listings)
