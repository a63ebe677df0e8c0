"""`leveret pipeline generate`: a workload that looks real, as an archive of events, or published to a broker."""

import uuid
from dataclasses import fields

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.spark import manifest as manifests
from leveret.spark.commands.context import Context, Outcome
from leveret.spark.generate import TrafficVolume, events, messages, queue_names
from leveret.spark.layout import ArchiveLayout, placed
from leveret.spark.manifest import Manifest
from leveret.spark.publishing import SinkBroker

MESSAGES_PER_FILE = 4_000_000


def run(context: Context) -> Outcome:
    """Make events, or publish messages, or both."""
    given = context.given
    stated = {each.name: getattr(given, each.name, None) for each in fields(TrafficVolume)}
    traffic = TrafficVolume(**{name: value for name, value in stated.items() if value is not None})
    if given.out is None and given.publish is None:
        raise InvalidArgument("nowhere to put it: give --out DIRECTORY, or --publish URL, or both")
    done = Outcome({"messages": traffic.messages, "queues": traffic.queues})
    broker = None if given.publish is None else SinkBroker(given.publish, given.token)
    if broker is not None:
        broker.declare(queue_names(traffic))
    with context.spark() as (spark, status):
        if given.out is not None:
            status.tell("events")
            with manifests.opened(given.out) as manifest:
                if manifest.generation:
                    raise PreconditionFailed(f"{given.out} is an archive already: give a directory of its own")
                rows = placed(events(spark, traffic), "events", 2 * traffic.queues)
                pieces = 1 + traffic.messages // MESSAGES_PER_FILE
                files = ArchiveLayout(given.out, 1).write(rows, "events", pieces)
                manifests.commit(given.out, Manifest(1, tuple(files)))
            done.facts |= {"archive": given.out, "events": sum(file.rows for file in files), "files": len(files)}
        if broker is not None:
            status.tell("publishing")
            # A name of its own: the same workload is published again when it is generated again.
            broker.publish(messages(spark, traffic), f"generate-{uuid.uuid4().hex}", 0)
            done.facts["published"] = traffic.messages
    return done
