"""What quorum queues do not do and classic ones do, refused in the words that clients of RabbitMQ know.

Both are stored in the same way here. A quorum queue is one that lasts: it has a name that its users agreed on, it is
durable, belongs to no connection and does not go with its last consumer.
"""

from typing import NamedTuple

from leveret.core.arguments import known_as
from leveret.core.errors import InvalidArgument, NotSupported, PreconditionFailed, ResourceLocked
from leveret.core.names import described
from leveret.core.queue import Queue

QUORUM = "quorum"


class Lifetime(NamedTuple):
    """How long a queue is to live, as its declaration says."""

    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    server_named: bool = False


def check_lifetime(queue_type: str, lifetime: Lifetime, name: str, vhost: str) -> None:
    """Refuse a queue that is not of its type."""
    if queue_type != QUORUM:
        return
    if lifetime.server_named:
        raise PreconditionFailed(f"Cannot declare a server-named queue for type {known_as(queue_type)}")
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
    """Refuse to take single messages past the one consumer of a queue."""
    if queue.policy.queue_type == QUORUM and queue.policy.single_active_consumer:
        raise ResourceLocked(
            f"cannot obtain access to locked {described('queue', queue.name, queue.vhost)}. basic.get operations are "
            "not supported by quorum queues with single active consumer"
        )
