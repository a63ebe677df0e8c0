"""Verbs on consumer groups of streams."""

from datetime import UTC, datetime
from typing import Any

from leveret.core.consumer_groups import ConsumerGroup, ConsumerGroups, Target
from leveret.core.errors import InvalidArgument
from leveret.server.administration.context import Verb, VerbContext
from leveret.server.administration.streams import VHOST, recorder_of
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.store import StreamStore

ENDS: dict[str, Target] = {"earliest": "earliest", "latest": "latest"}


def groups_of(context: VerbContext) -> ConsumerGroups:
    """All groups."""
    assert isinstance(context.core.streams, StreamStore), "a broker is opened with streams"
    return context.core.streams.groups


def found(context: VerbContext, stream: str, name: str, vhost: str) -> tuple[ConsumerGroup, StreamRecorder]:
    """A group, and the stream that it reads."""
    recorder = recorder_of(context, stream, vhost)
    group = groups_of(context).get(vhost, stream, name)
    group.expire(context.core.now_ms)
    return group, recorder


def shown(group: ConsumerGroup, recorder: StreamRecorder) -> dict[str, Any]:
    """A group in one line."""
    return {
        "vhost": group.vhost,
        "stream": group.stream,
        "name": group.name,
        "generation": group.membership.generation,
        "members": len(group.membership.members),
        "lag": sum(group.lag(recorder).values()),
    }


def list_all(context: VerbContext, stream: str | None = None, vhost: str | None = None) -> list[dict[str, Any]]:
    """Every group: everywhere, in one virtual host, or of one stream."""
    rows = [
        shown(group, recorder_of(context, group.stream, group.vhost))
        for group in groups_of(context)
        if vhost in (None, group.vhost) and stream in (None, group.stream)
    ]
    return sorted(rows, key=lambda row: (row["vhost"], row["stream"], row["name"]))


def show(context: VerbContext, stream: str, name: str, vhost: str = VHOST) -> list[dict[str, Any]]:
    """The members of a group, and what each reads."""
    group, _ = found(context, stream, name, vhost)
    return [{"member": member, "partitions": list(read)} for member, read in sorted(group.membership.members.items())]


def lag(context: VerbContext, stream: str, name: str, vhost: str = VHOST) -> list[dict[str, Any]]:
    """How far a group is in each partition."""
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


def create(context: VerbContext, stream: str, name: str, vhost: str = VHOST) -> dict[str, Any]:
    """A new group; one that exists is no error."""
    recorder = recorder_of(context, stream, vhost)
    return shown(groups_of(context).declare(vhost, stream, name, recorder.partitions), recorder)


def reset(context: VerbContext, stream: str, name: str, to: str, vhost: str = VHOST) -> dict[str, Any]:
    """A group reads on from elsewhere; its members have to join again."""
    group, recorder = found(context, stream, name, vhost)
    group.reset(recorder, target_of(to))
    return shown(group, recorder)


def delete(context: VerbContext, stream: str, name: str, vhost: str = VHOST) -> None:
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


VERBS: dict[str, Verb] = {
    "groups.list": list_all,
    "groups.show": show,
    "groups.lag": lag,
    "groups.create": create,
    "groups.reset": reset,
    "groups.delete": delete,
}
