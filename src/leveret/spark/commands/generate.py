"""`leveret pipeline generate`: a workload that looks real, as an archive of events, or published to a broker."""

import uuid
from dataclasses import fields

from leveret.core.errors import InvalidArgument, PreconditionFailed
from leveret.spark.archive import opened
from leveret.spark.commands.context import Context, Outcome
from leveret.spark.generate import TrafficVolume, events, messages, queue_names
from leveret.spark.layout import written
from leveret.spark.publishing import SinkBroker


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
            with opened(given.out) as tables:
                if tables.count():
                    raise PreconditionFailed(f"{given.out} is an archive already: give a directory of its own")
                files = written(events(spark, traffic), tables, "events")
                tables.commit(tables.table("events"), files)
            done.facts |= {
                "archive": given.out,
                "events": sum(file.record_count for file in files),
                "files": len(files),
            }
        if broker is not None:
            status.tell("publishing")
            # A name of its own: the same workload is published again when it is generated again.
            broker.publish(messages(spark, traffic), f"generate-{uuid.uuid4().hex}", 0)
            done.facts["published"] = traffic.messages
    return done
