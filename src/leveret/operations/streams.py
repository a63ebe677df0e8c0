"""Streams and their consumer groups."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

from leveret.core.arguments import PARTITIONS, QUEUE_TYPE
from leveret.core.consumer_groups import ConsumerGroup, ConsumerGroups, Target
from leveret.core.errors import InvalidArgument, QueueNotFound
from leveret.core.queue_types import STREAM
from leveret.operations.context import OperationContext
from leveret.operations.operation import ADMINISTERED, VHOST, Name, OnlyVhost, Vhost, changes, looks
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.store import StreamStore

StreamName = Annotated[str, "the stream that it reads"]
ENDS: dict[str, Target] = {"earliest": "earliest", "latest": "latest"}


def recorders(context: OperationContext, vhost: str | None = None) -> Iterator[StreamRecorder]:
    """Every stream, everywhere or in one virtual host, by name."""
    virtual_hosts = context.core.topology.vhosts.values() if vhost is None else [context.core.topology.vhost(vhost)]
    for virtual_host in sorted(virtual_hosts, key=lambda each: each.name):
        for _, queue in sorted(virtual_host.queues.items()):
            if isinstance(queue.recorder, StreamRecorder):
                yield queue.recorder


def recorder_of(context: OperationContext, name: str, vhost: str) -> StreamRecorder:
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


def list_streams(context: OperationContext, vhost: OnlyVhost = None) -> list[dict[str, Any]]:
    """List streams."""
    return [shown(recorder) for recorder in recorders(context, vhost)]


def show_stream(context: OperationContext, name: Name, vhost: Vhost = VHOST) -> list[dict[str, Any]]:
    """Show the partitions of a stream."""
    return [
        {
            "partition": each["partition"],
            "first_offset": each["first_offset"],
            "next_offset": each["committed_offset"] + 1,
            "records": each["messages"],
            "size_bytes": each["size_bytes"],
            "segments": each["segments"],
        }
        for each in recorder_of(context, name, vhost).figures()
    ]


def create_stream(
    context: OperationContext,
    name: Name,
    partitions: Annotated[int | None, "how many; default: 1"] = None,
    max_age: Annotated[str | None, "how long records are kept, such as 7D; default: for ever"] = None,
    max_bytes: Annotated[int | None, "what each partition may take; default: no limit"] = None,
    segment_bytes: Annotated[int | None, "size of a file; whole files are removed"] = None,
    vhost: Vhost = VHOST,
) -> dict[str, Any]:
    """Make a stream.

    One that exists with these settings is no error. A node answers nothing: the shard of the stream knows it.
    """
    given = {
        PARTITIONS: partitions,
        "x-max-age": max_age,
        "x-max-length-bytes": max_bytes,
        "x-stream-max-segment-size-bytes": segment_bytes,
    }
    arguments = {each: value for each, value in given.items() if value is not None}
    context.core.declare_queue(vhost, name, {**arguments, QUEUE_TYPE: STREAM})
    return shown(recorder_of(context, name, vhost)) if context.remote is None else {}


def delete_stream(context: OperationContext, name: Name, vhost: Vhost = VHOST) -> dict[str, Any]:
    """Delete a stream with its records and groups."""
    return {"records": context.core.delete_queue(recorder_of(context, name, vhost).queue)}


# Groups


def groups_of(context: OperationContext) -> ConsumerGroups:
    """All groups."""
    assert isinstance(context.core.streams, StreamStore), "a broker is opened with streams"
    return context.core.streams.groups


def found(context: OperationContext, stream: str, name: str, vhost: str) -> tuple[ConsumerGroup, StreamRecorder]:
    """A group, and the stream that it reads."""
    recorder = recorder_of(context, stream, vhost)
    group = groups_of(context).get(vhost, stream, name)
    group.expire(context.core.now_ms)
    return group, recorder


def shown_group(group: ConsumerGroup, recorder: StreamRecorder) -> dict[str, Any]:
    """A group in one line."""
    return {
        "vhost": group.vhost,
        "stream": group.stream,
        "name": group.name,
        "generation": group.membership.generation,
        "members": len(group.membership.members),
        "lag": sum(group.lag(recorder).values()),
    }


def list_groups(
    context: OperationContext, stream: Annotated[str | None, "only of this stream"] = None, vhost: OnlyVhost = None
) -> list[dict[str, Any]]:
    """List consumer groups."""
    rows = [
        shown_group(group, recorder_of(context, group.stream, group.vhost))
        for group in groups_of(context)
        if vhost in (None, group.vhost) and stream in (None, group.stream)
    ]
    return sorted(rows, key=lambda row: (row["vhost"], row["stream"], row["name"]))


def show_group(context: OperationContext, stream: StreamName, name: Name, vhost: Vhost = VHOST) -> list[dict[str, Any]]:
    """Show the members of a group."""
    group, _ = found(context, stream, name, vhost)
    return [{"member": member, "partitions": list(read)} for member, read in sorted(group.membership.members.items())]


def lag(context: OperationContext, stream: StreamName, name: Name, vhost: Vhost = VHOST) -> list[dict[str, Any]]:
    """Show how far a group is in each partition."""
    group, recorder = found(context, stream, name, vhost)
    readers = {partition: member for member, read in group.membership.members.items() for partition in read}
    return [
        {
            "partition": partition,
            "offset": group.position(partition, recorder),
            "next_offset": recorder.latest(partition),
            "lag": behind,
            "member": readers.get(partition),
        }
        for partition, behind in group.lag(recorder).items()
    ]


def create_group(context: OperationContext, stream: StreamName, name: Name, vhost: Vhost = VHOST) -> dict[str, Any]:
    """Make a group."""
    recorder = recorder_of(context, stream, vhost)
    return shown_group(groups_of(context).declare(vhost, stream, name, recorder.partitions), recorder)


def reset(
    context: OperationContext,
    stream: StreamName,
    name: Name,
    to: Annotated[str, "earliest, latest or a time such as 2026-01-31T12:00:00Z"],
    vhost: Vhost = VHOST,
) -> dict[str, Any]:
    """Let a group read on from elsewhere; its members join again."""
    group, recorder = found(context, stream, name, vhost)
    group.reset(recorder, target_of(to))
    return shown_group(group, recorder)


def delete_group(context: OperationContext, stream: StreamName, name: Name, vhost: Vhost = VHOST) -> None:
    """Delete a group without members."""
    groups_of(context).delete(vhost, stream, name, context.core.now_ms)


def target_of(to: str) -> Target:
    """Where a reset goes: earliest, latest or a time."""
    if to in ENDS:
        return ENDS[to]
    try:
        moment = datetime.fromisoformat(to)
    except ValueError:
        raise InvalidArgument(
            f"a group is reset to earliest, latest or a time such as 2026-01-31T12:00:00Z, not {to!r}"
        ) from None
    return max(0, round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000))


OPERATIONS = (
    *looks("shards", ADMINISTERED, {"streams.list": list_streams, "groups.list": list_groups}),
    *looks("shard", ADMINISTERED, {"streams.show": show_stream, "groups.show": show_group, "groups.lag": lag}),
    *changes("catalog", ADMINISTERED, {"streams.create": create_stream}),
    *changes(
        "shard",
        ADMINISTERED,
        {
            "streams.delete": delete_stream,
            "groups.create": create_group,
            "groups.reset": reset,
            "groups.delete": delete_group,
        },
    ),
)
