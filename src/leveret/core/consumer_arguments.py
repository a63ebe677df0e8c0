"""Arguments of consumers: priority and time to settle, or what to read of a stream; each type refuses the other's."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from leveret.core.arguments import (
    CONSUMER_TIMEOUT,
    PARTITIONS_MAX,
    Parser,
    flag,
    known_as,
    max_age,
    positive_time,
    type_name,
    whole,
)
from leveret.core.errors import InvalidArgument
from leveret.core.names import described
from leveret.core.queue import Queue

PRIORITY = "x-priority"
PRIORITY_BITS = 63  # any number that a client can send

_PARSERS: dict[str, Parser] = {
    PRIORITY: whole(-(2**PRIORITY_BITS), 2**PRIORITY_BITS - 1),
    CONSUMER_TIMEOUT: positive_time,
    "x-cancel-on-ha-failover": flag,
}
OFFSET = "x-stream-offset"
OFFSETS = "x-stream-offsets"
FILTER = "x-stream-filter"
MATCH_UNFILTERED = "x-stream-match-unfiltered"
PARTITION = "x-stream-partition"
FILTERS_MAX = 256
"""Values that one reader may look for: each costs a look at every block."""


def _offset(value: object) -> object:
    """Where to start in a stream: a word, so long ago, an offset or a time; before the first record is at it."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else 0
    place = value.decode("latin-1") if isinstance(value, bytes) else value
    if place in ("first", "last", "next") or isinstance(value, datetime):
        return place
    try:
        if isinstance(value, str) and max_age(value):
            return value
    except ValueError:
        pass
    raise ValueError(f"{{invalid_stream_offset_arg,{{{type_name(value)},{_term(value)}}}}}")


def _offsets(value: object) -> list[object]:
    """Where to start in each partition of a stream."""
    if not isinstance(value, list):
        raise ValueError("expected an array, with a place for each partition")
    return [_offset(each) for each in value]


def _term(value: object) -> str:
    """A value as refusals of RabbitMQ write it."""
    if isinstance(value, str | bytes):
        return f'<<"{value if isinstance(value, str) else value.decode("latin-1")}">>'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _filters(value: object) -> list[bytes]:
    values: list[Any] = value if isinstance(value, list) else [value]
    if len(values) > FILTERS_MAX or not all(isinstance(each, str) for each in values):
        raise ValueError(f"expected a string, or up to {FILTERS_MAX} of them")
    return [each.encode("utf-8", "surrogateescape") for each in values]


_OF_STREAMS: dict[str, Parser] = {
    OFFSET: _offset,
    OFFSETS: _offsets,
    FILTER: _filters,
    MATCH_UNFILTERED: flag,
    PARTITION: whole(0, PARTITIONS_MAX - 1),
}


class StreamPlace(NamedTuple):
    """What a consumer of a stream wants to read; None for all partitions, or for records of every filter value."""

    offsets: list[Any]
    """Where to start in each partition."""
    wanted: list[bytes] | None
    match_unfiltered: bool
    partition: int | None


class ConsumerArguments(NamedTuple):
    """What a consumer asks for."""

    priority: int
    timeout_ms: int  # 0: that of its queue


def parse(queue: Queue, arguments: Mapping[str, Any]) -> ConsumerArguments:
    """What a consumer asks for; refuse arguments that its queue cannot follow."""
    found = _read(queue, arguments, _PARSERS, _OF_STREAMS)
    return ConsumerArguments(int(found.get(PRIORITY, 0)), int(found.get(CONSUMER_TIMEOUT, 0)))


def stream_place(queue: Queue, arguments: Mapping[str, Any]) -> StreamPlace:
    """What a consumer asks of a stream; from now on, if it does not say where to start."""
    found = _read(queue, arguments, _OF_STREAMS, (PRIORITY,))
    partition, partitions = found.get(PARTITION), queue.policy.partitions
    offsets = found.get(OFFSETS, [found.get(OFFSET, "next")] * partitions)
    fits = {PARTITION: partition is None or partition < partitions, OFFSETS: len(offsets) == partitions}
    for name in (each for each in fits if not fits[each]):
        where = described("queue", queue.name, queue.vhost)
        raise InvalidArgument(f"invalid arg '{name}' for {where}: it has {partitions} partitions")
    return StreamPlace(offsets, found.get(FILTER), found.get(MATCH_UNFILTERED, False), partition)


def _read(
    queue: Queue, arguments: Mapping[str, Any], parsers: Mapping[str, Parser], foreign: Iterable[str]
) -> dict[str, Any]:
    """The arguments that are meant for this type of queue, checked; those of another type are refused."""
    where = described("queue", queue.name, queue.vhost)
    found = {}
    for name in (each for each in parsers if each in arguments):
        try:
            found[name] = parsers[name](arguments[name])
        except ValueError as error:
            raise InvalidArgument(f"invalid arg '{name}' for {where}: {error}") from None
    for name in (each for each in foreign if each in arguments):
        raise InvalidArgument(f"invalid arg '{name}' for {where} of queue type {known_as(queue.policy.queue_type)}")
    return found
