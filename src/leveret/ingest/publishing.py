"""Rows into queues: the checks before a batch is decided on, and the publishing after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import groupby, islice
from typing import Any, NamedTuple, Protocol

from leveret.core import deadletter
from leveret.core.arguments import sent_delay_ms
from leveret.core.broker import Broker
from leveret.core.dedup import content_id, digest
from leveret.core.errors import (
    AccessRefused,
    DiskFull,
    ExchangeNotFound,
    JournalError,
    LeveretError,
    MessageTooLarge,
    QueueNotFound,
    ResourceLocked,
    TooMany,
)
from leveret.core.policy import QueuePolicy
from leveret.core.properties import Properties, content, encode_header
from leveret.core.queue import Queue
from leveret.ingest.rows import IngestRow, RowDestination, RowRun
from leveret.runtime.message import DEDUP, GROUP
from leveret.runtime.outgoing import PreparedMessage
from leveret.storage.stream.recorder import check_labels

RUN_ROWS = 500  # that are read before it is known whether there is room for them

Chunk = list[IngestRow] | RowRun
"""Rows that one commit batch takes."""


class ShardRoute(Protocol):
    """The way of messages that differ in their bodies only; under the lock of the own shard."""

    def room(self) -> int: ...  # how many more may be sent now
    def send(self, body: bytes, **options: Any) -> None:
        """Keep a message, in the commit batch that is being made, until every queue that it goes to has it."""


class OtherShards(Protocol):
    """The other shards of a cluster; under the lock of the own one, unless told otherwise."""

    def definitions(self) -> AbstractContextManager[Broker]:
        """A copy of the exchanges, queues and bindings of all shards, under a lock; with or without that of a shard."""

    def shard_route(
        self, vhost: str, exchange: str, routing_key: str, keys: list[str], properties: Properties
    ) -> ShardRoute | None:
        """The way of messages to queues of other shards, as they are now; None: there are no such queues."""


class PublishedRows(NamedTuple):
    """How many of some rows are done with, and how many of these no queue took."""

    rows: int
    dropped: int


def check(core: Broker, vhost: str, rows: Chunk, new: Iterable[RowDestination]) -> int:
    """Refuse what could not be published; give the number of rows that no queue would take."""
    for destination in new:
        _check_destination(core, vhost, destination)
    if isinstance(rows, RowRun):
        queues = _checked(core, vhost, rows.destination, rows.common, rows.packed.longest)
        return 0 if queues else len(rows)
    return sum(not _checked(core, vhost, row.destination, row.message, len(row.body)) for row in rows)


def destinations_of(rows: Chunk) -> set[RowDestination]:
    """Where rows go, with the keys of their copies (CC, BCC): each needs its permission."""
    if isinstance(rows, RowRun):
        alike = [(rows.destination, rows.common)]
    else:
        pairs = {(row.destination, id(row.message)): (row.destination, row.message) for row in rows}
        alike = list(pairs.values())
    found = set()
    for destination, message in alike:
        found.add(destination)
        if destination.queue is None and message.properties.headers:
            keys = deadletter.all_keys(message.properties, destination.routing_key)
            found.update(destination._replace(routing_key=key) for key in keys)
    return found


def _checked(core: Broker, vhost: str, destination: RowDestination, message: PreparedMessage, size: int) -> list[Queue]:
    """Where rows with bodies up to such a size would go; refuses them if they could not be taken there."""
    queues = _queues(core, vhost, destination, message)
    for queue in queues:
        if queue.recorder is not None:
            check_labels(message.properties.headers or {})
        if _too_large(queue, size):
            raise MessageTooLarge(
                f"a row has a body of {size} bytes, queue '{queue.name}' takes at most "
                f"{queue.policy.max_message_bytes}: raise max_message_size, or send a reference"
            )
    return queues


def publish(
    core: Broker,
    vhost: str,
    rows: Chunk,
    producer: bytes = b"",
    first: int = 0,
    other_shards: OtherShards | None = None,
) -> PublishedRows:
    """Publish rows in order until one meets a full queue or disk: that one waits, with all after it.

    Streams know them by their producer and numbers, from `first` on.
    """
    taken = dropped = 0
    row_routes = None if other_shards is None else RowRoutes(core, vhost, other_shards)
    author = core.streams.author
    author.producer, author.sequence = producer, first
    try:
        if isinstance(rows, RowRun) and (queue := _taker(core, vhost, rows)) is not None:
            rows.publish(core.publisher, queue, author)
            return PublishedRows(len(rows), 0)
        for run in _runs(rows):
            left = len(run)
            for done in _publish_run(core, vhost, run, row_routes):
                left -= done.rows
                taken += done.rows
                author.sequence += done.rows
                dropped += done.dropped
            if left:
                break
    except (DiskFull, TooMany):
        pass
    finally:
        author.producer = b""
    return PublishedRows(taken, dropped)


def _runs(rows: Iterable[IngestRow]) -> Iterator[list[IngestRow]]:
    """Rows that are alike but for their bodies, not too many at once: those that find no room are read again later."""
    for _, alike in groupby(rows, key=_identity):
        while run := list(islice(alike, RUN_ROWS)):
            yield run


def _taker(core: Broker, vhost: str, row_run: RowRun) -> Queue | None:
    """The queue that takes a run as it is; None if its rows have to be looked at."""
    if row_run.destination.queue is None or row_run.common.key is not None:
        return None
    queues = _queues(core, vhost, row_run.destination, row_run.common)
    return queues[0] if queues and _is_plain(queues[0]) else None


def _publish_run(
    core: Broker, vhost: str, run: list[IngestRow], row_routes: RowRoutes | None
) -> Iterator[PublishedRows]:
    """Publish rows that are alike but for their bodies; tells at once what is done."""
    destination, message, *_ = run[0]
    try:
        queues = _queues(core, vhost, destination, message)
    except LeveretError:
        queues = []
    row_route = None if row_routes is None else row_routes.of(run[0])
    if row_route is not None:
        yield from _send_run(core, run, queues, row_route)
    elif not queues:
        # There were some when the batch was decided on, unless it was told to drop such rows.
        yield PublishedRows(len(run), len(run))
    elif len(run) > 1 and destination.queue and message.key is None and not message.blob and _is_plain(queues[0]):
        options = message.options(core.now_ms)
        times = {name: options[name] for name in ("priority", "due_ms", "expiry_ms", "group")}
        header = encode_header(message.properties, 0)
        # A stream has to know the number of each.
        step = len(run) if queues[0].recorder is None else 1
        for at in range(0, len(run), step):
            core.send_many(queues[0], header, [row.body for row in run[at : at + step]], **times)
            yield PublishedRows(step, 0)
    else:
        for row in run:
            if any(_is_full(queue, len(row.body)) for queue in queues):
                return
            yield PublishedRows(1, not _publish_one(core, row, queues))


def _send_run(core: Broker, run: list[IngestRow], queues: list[Queue], row_route: RowRoute) -> Iterator[PublishedRows]:
    shard_route, options, policy = row_route
    for row in run[: shard_route.room()]:
        if any(_is_full(queue, len(row.body)) for queue in queues):
            return
        if queues:
            _publish_one(core, row, queues)
        key = options["key"] if policy is None else _key(row, policy)
        shard_route.send(row.body, **{**options, "key": key})
        yield PublishedRows(1, 0)


class RowRoute(NamedTuple):
    """How rows that are alike but for their bodies get to queues of other shards."""

    shard_route: ShardRoute
    options: dict[str, Any]
    """What is told of them."""
    policy: QueuePolicy | None
    """That of their queue, if they are for one."""


class RowRoutes:
    """Those of some rows, looked for once for all that are alike; while nothing else happens to their shard."""

    def __init__(self, core: Broker, vhost: str, other_shards: OtherShards) -> None:
        self._core = core
        self._vhost = vhost
        self._other_shards = other_shards
        self._known: dict[tuple[RowDestination, int], tuple[PreparedMessage, RowRoute | None]] = {}

    def of(self, row: IngestRow) -> RowRoute | None:
        """That of a row; None: no other shard has a queue for it."""
        alike = row.destination, id(row.message)
        if alike not in self._known:
            self._known[alike] = row.message, self._found(row)  # a message that is kept shares its id with no other one
        return self._known[alike][1]

    def _found(self, row: IngestRow) -> RowRoute | None:
        shard_route = _shard_route(self._other_shards, self._vhost, row)
        if shard_route is None:
            return None
        destination, message, *_ = row
        options = message.options(self._core.now_ms)
        with self._other_shards.definitions() as copy:
            virtual_host = copy.topology.vhost(self._vhost)
            if destination.queue is not None:
                return RowRoute(shard_route, options, virtual_host.queues[destination.queue].policy)
            if virtual_host.exchanges[destination.exchange].delays and not options["due_ms"]:
                headers = message.properties.headers or {}
                options["due_ms"] = self._core.now_ms + sent_delay_ms(headers.get("x-delay", 0))
        return RowRoute(shard_route, options, None)


def _shard_route(other_shards: OtherShards, vhost: str, row: IngestRow) -> ShardRoute | None:
    queue, exchange, key = row.destination
    properties = row.message.properties
    if queue is not None:
        return other_shards.shard_route(vhost, "", queue, [queue], properties)
    return other_shards.shard_route(vhost, exchange, key, deadletter.all_keys(properties, key), properties)


def _publish_one(core: Broker, row: IngestRow, queues: list[Queue]) -> bool:
    """Publish a row; False when it is refused: its queue was changed since the batch was decided on."""
    destination, message, body, _ = row
    options = message.options(core.now_ms)
    try:
        if destination.queue is None:
            exchange, key = destination.exchange, destination.routing_key
            core.publish_routed(queues, exchange, key, message.properties, body, **options)
        else:
            options["key"] = _key(row, queues[0].policy)
            core.publish(queues, queues[0].route, *content(message.properties, body), **options)
    except (JournalError, TooMany):
        raise
    except LeveretError:
        return False
    return True


def _key(row: IngestRow, policy: QueuePolicy) -> bytes | None:
    """What a queue compares with others."""
    headers = row.message.properties.headers or {}
    scope = headers.get(GROUP) if policy.dedup_scope == "group" else None
    if row.message.key is not None:
        return digest(headers[DEDUP], scope)
    if not policy.content_dedup:
        return None
    return digest(content_id(row.body if row.sent is None else row.sent), scope)


def _identity(row: IngestRow) -> tuple[int, int]:
    return id(row.destination), id(row.message)


def _queues(core: Broker, vhost: str, destination: RowDestination, message: PreparedMessage) -> list[Queue]:
    """Where a row would go now."""
    virtual_host = core.topology.vhost(vhost)
    if destination.queue is not None:
        found = virtual_host.queues.get(destination.queue)
        return [] if found is None or found.owner is not None else [found]
    if destination.exchange not in virtual_host.exchanges:
        return []
    if message.properties.headers and virtual_host.exchanges[destination.exchange].delays:
        sent_delay_ms(message.properties.headers.get("x-delay", 0))
    return core.route_through(vhost, destination.exchange, destination.routing_key, message.properties)


def goes_to_stream(core: Broker, vhost: str, destination: RowDestination) -> bool:
    """Whether rows go straight to a stream, which keeps bodies of every size itself."""
    found = core.topology.vhost(vhost).queues.get(destination.queue or "")
    return found is not None and found.recorder is not None


def _check_destination(core: Broker, vhost: str, destination: RowDestination) -> None:
    virtual_host = core.topology.vhost(vhost)
    if destination.queue is not None:
        queue = virtual_host.queues.get(destination.queue)
        if queue is None:
            raise QueueNotFound(f"no queue '{destination.queue}' in vhost '{vhost}': create it first")
        if queue.owner is not None:
            raise ResourceLocked(f"queue '{queue.name}' belongs to one connection of AMQP: use another one")
    elif destination.exchange not in virtual_host.exchanges:
        raise ExchangeNotFound(f"no exchange '{destination.exchange}' in vhost '{vhost}': create it first")
    elif virtual_host.exchanges[destination.exchange].internal:
        raise AccessRefused(f"exchange '{destination.exchange}' is internal: publish to one that is bound to it")


def _is_plain(queue: Queue) -> bool:
    """Whether a queue takes everything as it is."""
    policy = queue.policy
    return not policy.content_dedup and policy.max_message_bytes is None and not _rejects(queue)


def _rejects(queue: Queue) -> bool:
    """Whether a queue refuses publishes when it is full."""
    policy = queue.policy
    bounded = policy.max_length is not None or policy.max_length_bytes is not None
    return bounded and policy.overflow != "drop-head"


def _is_full(queue: Queue, size: int) -> bool:
    return _rejects(queue) and queue.would_overflow(size)


def _too_large(queue: Queue, size: int) -> bool:
    most = queue.policy.max_message_bytes
    return most is not None and size > most
