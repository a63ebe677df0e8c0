"""Verbs on streams."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from leveret.core.arguments import QUEUE_TYPE
from leveret.core.errors import QueueNotFound
from leveret.core.queue_types import STREAM
from leveret.embedded.stream import partition_stats, stream_arguments
from leveret.server.administration.context import Verb, VerbContext
from leveret.storage.stream.recorder import StreamRecorder

VHOST = "/"


def recorders(context: VerbContext, vhost: str | None = None) -> Iterator[StreamRecorder]:
    """Every stream, everywhere or in one virtual host, by name."""
    virtual_hosts = context.core.topology.vhosts.values() if vhost is None else [context.core.topology.vhost(vhost)]
    for virtual_host in sorted(virtual_hosts, key=lambda each: each.name):
        for _, queue in sorted(virtual_host.queues.items()):
            if isinstance(queue.recorder, StreamRecorder):
                yield queue.recorder


def recorder_of(context: VerbContext, name: str, vhost: str) -> StreamRecorder:
    """The stream of that name."""
    queue = context.core.topology.vhost(vhost).queues.get(name)
    if queue is None or not isinstance(queue.recorder, StreamRecorder):
        raise QueueNotFound(f"no stream '{name}' in vhost '{vhost}': create it first")
    return queue.recorder


def shown(recorder: StreamRecorder) -> dict[str, Any]:
    """A stream, what it may keep, and what it holds."""
    queue = recorder.queue
    return {
        "vhost": queue.vhost,
        "name": queue.name,
        "partitions": recorder.partitions,
        "records": recorder.length,
        "size_bytes": recorder.size_bytes,
        "max_age_ms": queue.policy.max_age_ms,
        "max_bytes": queue.policy.max_length_bytes,
        "segment_bytes": queue.policy.segment_bytes,
    }


def list_all(context: VerbContext, vhost: str | None = None) -> list[dict[str, Any]]:
    """Every stream, everywhere or in one virtual host."""
    return [shown(recorder) for recorder in recorders(context, vhost)]


def show(context: VerbContext, name: str, vhost: str = VHOST) -> list[dict[str, Any]]:
    """The partitions of a stream."""
    return [asdict(each) for each in partition_stats(recorder_of(context, name, vhost))]


def create(
    context: VerbContext,
    name: str,
    vhost: str = VHOST,
    partitions: int | None = None,
    max_age: str | None = None,
    max_bytes: int | None = None,
    segment_bytes: int | None = None,
) -> dict[str, Any]:
    """A new stream; one that exists with these settings is no error. Of a node nothing is told: its shard knows it."""
    arguments = stream_arguments(partitions, max_age, max_bytes, segment_bytes)
    context.core.declare_queue(vhost, name, {**arguments, QUEUE_TYPE: STREAM})
    return shown(recorder_of(context, name, vhost)) if context.remote is None else {}


def delete(context: VerbContext, name: str, vhost: str = VHOST) -> dict[str, Any]:
    """A stream goes, with its records and groups."""
    return {"records": context.core.delete_queue(recorder_of(context, name, vhost).queue)}


VERBS: dict[str, Verb] = {
    "streams.list": list_all,
    "streams.show": show,
    "streams.create": create,
    "streams.delete": delete,
}
