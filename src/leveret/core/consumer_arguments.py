"""Arguments of consumers: the priority, the time to settle, and what belongs to queues of another type."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from leveret.core.arguments import CONSUMER_TIMEOUT, flag, known_as, positive_time, whole
from leveret.core.errors import InvalidArgument
from leveret.core.names import described
from leveret.core.queue import Queue

PRIORITY = "x-priority"
PRIORITY_BITS = 63  # any number that a client can send

_PARSERS = {
    PRIORITY: whole(-(2**PRIORITY_BITS), 2**PRIORITY_BITS - 1),
    CONSUMER_TIMEOUT: positive_time,
    "x-cancel-on-ha-failover": flag,
}
_OF_STREAMS = ("x-stream-offset", "x-stream-filter", "x-stream-match-unfiltered")


class ConsumerArguments(NamedTuple):
    """What a consumer asks for."""

    priority: int
    timeout_ms: int  # 0: that of its queue


def parse(queue: Queue, arguments: Mapping[str, Any]) -> ConsumerArguments:
    """What a consumer asks for; refuse arguments that its queue cannot follow."""
    where = described("queue", queue.name, queue.vhost)
    found = {}
    for name in (each for each in _PARSERS if each in arguments):
        try:
            found[name] = _PARSERS[name](arguments[name])
        except ValueError as error:
            raise InvalidArgument(f"invalid arg '{name}' for {where}: {error}") from None
    for name in (each for each in _OF_STREAMS if each in arguments):
        raise InvalidArgument(f"invalid arg '{name}' for {where} of queue type {known_as(queue.policy.queue_type)}")
    return ConsumerArguments(int(found.get(PRIORITY, 0)), int(found.get(CONSUMER_TIMEOUT, 0)))
