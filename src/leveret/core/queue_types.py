"""What quorum queues and streams do not do and classic queues do, refused in the words that clients of RabbitMQ know.

A quorum queue journals every message, a classic one those that are persistent. Quorum queues and streams last: they
have a name that their users agreed on, are durable, belong to no connection and do not go with their last consumer.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret.core.arguments import QUEUE_TYPE, known_as
from leveret.core.errors import InvalidArgument, NotSupported, PreconditionFailed, ResourceLocked
from leveret.core.names import described
from leveret.core.queue import Queue

QUORUM = "quorum"
STREAM = "stream"
LASTING = (QUORUM, STREAM)


class Lifetime(NamedTuple):
    """How long a queue is to live, as its declaration says."""

    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False


def typed(
    default: str | None, existing: Queue | None, arguments: Mapping[str, Any] | None, *, lasting: bool
) -> Mapping[str, Any] | None:
    """The arguments with the type that a virtual host gives to queues that last; one that exists keeps its own."""
    if default is None or QUEUE_TYPE in (arguments or {}) or not (existing or lasting):
        return arguments
    chosen = default if existing is None else existing.policy.queue_type
    return {**(arguments or {}), QUEUE_TYPE: chosen}


def check_server_named(arguments: Mapping[str, Any] | None) -> None:
    """Refuse a queue without a name, if its type wants one; the first of all checks."""
    queue_type = (arguments or {}).get(QUEUE_TYPE)
    if queue_type in LASTING:
        raise PreconditionFailed(f"Cannot declare a server-named queue for type {known_as(queue_type)}")


def check_lifetime(queue_type: str, lifetime: Lifetime, name: str, vhost: str) -> None:
    """Refuse a queue that is not of its type."""
    if queue_type not in LASTING:
        return
    refused = (
        ("auto-delete", lifetime.auto_delete),
        ("exclusive-owner", lifetime.exclusive),
        ("non-durable", not lifetime.durable),
    )
    for what, asked in refused:
        if asked:
            raise InvalidArgument(f"invalid property '{what}' for {described('queue', name, vhost)}")


def check_delete(queue: Queue, if_unused: bool, if_empty: bool) -> None:
    """Refuse to delete a queue under a condition that its type does not look at."""
    for flag, asked in (("if-unused", if_unused), ("if-empty", if_empty)):
        if asked and queue.policy.queue_type == QUORUM:
            raise NotSupported(
                f"cannot delete {described('queue', queue.name, queue.vhost)}. queue.delete operations with {flag} "
                "flag set are not supported by quorum queues"
            )


def check_get(queue: Queue) -> None:
    """Refuse to take single messages from a stream, or past the one consumer of a queue."""
    if queue.policy.queue_type == STREAM:
        where = described("queue", queue.name, queue.vhost)
        raise NotSupported(f"basic.get not supported by stream queues {where}")
    if queue.policy.queue_type == QUORUM and queue.policy.single_active_consumer:
        raise ResourceLocked(
            f"cannot obtain access to locked {described('queue', queue.name, queue.vhost)}. basic.get operations are "
            "not supported by quorum queues with single active consumer"
        )
