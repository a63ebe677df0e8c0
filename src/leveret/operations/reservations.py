"""Reservations: what groups of readers, such as queries of Spark, have reserved of queues."""

from typing import Annotated, Any

from leveret.core.errors import QueueNotFound
from leveret.core.queue import Queue
from leveret.core.reservations import ReaderGroup
from leveret.operations.context import OperationContext
from leveret.operations.operation import ADMINISTERED, VHOST, Name, OnlyVhost, Vhost, changes, looks


def described(group: ReaderGroup, now_ms: int) -> dict[str, Any]:
    """What a group has, whose it is, and since when nothing was heard of it."""
    return {
        "name": group.name,
        "user": group.user,
        "idle_seconds": (now_ms - group.used_ms) / 1000,
        "lease_seconds": group.lease_ms / 1000 or None,
        **group.reserved._asdict(),
    }


def list_reservations(
    context: OperationContext, queue: Annotated[str | None, "only of this queue"] = None, vhost: OnlyVhost = None
) -> list[dict[str, Any]]:
    """List the groups that reserve messages of queues."""
    core = context.core
    rows = [
        {"vhost": group.queue.vhost, "queue": group.queue.name, **described(group, core.now_ms)}
        for group in core.reservations
        if vhost in (None, group.queue.vhost) and queue in (None, group.queue.name)
    ]
    return sorted(rows, key=lambda row: (row["vhost"], row["queue"], row["name"]))


def release(
    context: OperationContext,
    queue: Annotated[str, "the queue that it reads"],
    name: Name,
    vhost: Vhost = VHOST,
) -> dict[str, Any]:
    """Give back what a group has reserved and forget the group: a query that comes back finds that it is gone."""
    found = context.core.topology.vhost(vhost).queues.get(queue)
    if not isinstance(found, Queue):
        raise QueueNotFound(f"no queue '{queue}' in vhost '{vhost}'")
    return {"messages": context.core.reservations.delete(found, name).reserved.messages}


OPERATIONS = (
    *looks("shards", ADMINISTERED, {"reservations.list": list_reservations}),
    *changes("shard", ADMINISTERED, {"reservations.release": release}),
)
