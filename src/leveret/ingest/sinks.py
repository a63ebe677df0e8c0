"""The verbs on sinks: stage, commit, abort, delete; in the event loop of a server.

    put     pieces of parts, on the disk when it is answered
    commit  check every row -> decide (durable) -> roll forward -> note that it is published (durable) -> answer

A second commit of a batch waits for the first one, or is answered as that was. What was decided before a restart is
published after it, whether a client asks again or not.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from leveret.core.errors import (
    AccessRefused,
    BlobStoreFailed,
    BrokerClosed,
    InvalidArgument,
    JournalFailed,
    MessageTooLarge,
    NotFound,
    NotSupported,
    PreconditionFailed,
    ResourceLocked,
    StoreUnreachable,
    TooMany,
)
from leveret.ingest.commit_log import CommitLog, CommittedPart, IngestBatch, Sink
from leveret.ingest.publishing import Chunk, OtherShards, check, destinations_of, goes_to_stream
from leveret.ingest.quota import Quota
from leveret.ingest.roll_forward import RollForward, chunks, row_groups_of
from leveret.ingest.row_groups import RowGroup
from leveret.ingest.rows import IngestRow, IngestRows, RowDestination, RowRun, destinations
from leveret.ingest.staging import BlobFolder, Folder, Staging, staged_keys
from leveret.observability.logs import Log
from leveret.runtime.large_bodies import drop_unused, put_away
from leveret.runtime.runtime import Runtime
from leveret.runtime.threads import Threads
from leveret.storage.disk import Disk

DIRECTORY = "staging"
FULL_S = 0.05  # between two attempts at a full queue
AWAY_S = 1.0  # the same at a store that does not give what was staged
SWEEP_S = 60.0
COMMIT_S = 10.0  # after which a commit is answered with how far it is
THREADS_MAX = 8  # of one server, or of one shard, that wait for its store

REFUSALS = (
    InvalidArgument,
    PreconditionFailed,
    NotFound,
    NotSupported,
    AccessRefused,
    MessageTooLarge,
    TooMany,
    ResourceLocked,
)
"""What only the client that commits is told."""

GONE = BlobStoreFailed, BrokerClosed, JournalFailed, StoreUnreachable
"""The store is away, or another node has taken it over: waiting clients are told to try again."""

Allow = Callable[[RowDestination], None]
"""Refuses what the user may not write to."""

LOG = Log("sink")


def staged_in(data: str) -> Mapping[str, int]:
    """How many staged pieces in a data directory each master key encrypts, by its id."""
    place = Path(data, DIRECTORY)
    return staged_keys(Disk(place)) if place.exists() else {}


@dataclass(frozen=True, slots=True)
class Order:
    """What a commit asks for."""

    sink: Sink
    number: int
    shares: tuple[CommittedPart, ...]
    rows: int
    origin: str = ""
    once: bool = False
    unroutable: Literal["refuse", "drop"] = "refuse"


class Sinks:
    """The sinks of one server, or of one shard; in the running loop."""

    def __init__(
        self,
        runtime: Runtime,
        directory: str,
        quota: Quota,
        batches_max: int,
        other_shards: OtherShards | None = None,
    ) -> None:
        """Take up what was decided, staged in a directory; `start` goes on with it.

        Those of a shard, which reach other shards `elsewhere`, stage where its next owner finds it; the shards of a
        node share a quota.
        """
        store = runtime.store
        assert store is not None, "a broker in memory has nowhere to stage"
        self._runtime = runtime
        self._age_ms = quota.limits.age_ms
        now_ms = runtime.clock.now_ms()
        place = Folder(Disk(Path(directory) / DIRECTORY)) if other_shards is None else BlobFolder(runtime)
        self._other_shards = other_shards
        self._definitions = (lambda: runtime) if other_shards is None else other_shards.definitions
        self._staging = Staging(place, store.options.keys, quota, now_ms)
        with runtime as core:
            self._commit_log = CommitLog(core, batches_max)
        self._committing: dict[Sink, asyncio.Task[IngestBatch]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = False
        # Not the threads that logins share: a store that is away takes these for as long as that lasts.
        self._threads = Threads(THREADS_MAX, "leveret-sink")

    def start(self) -> None:
        """Publish what was decided before, and sweep now and then."""
        for batch in self._commit_log.unfinished():
            LOG.info("batch is published further", sink=batch.sink.name, batch=batch.number, done=batch.done)
            self._committing[batch.sink] = self._run(self._resume(batch))
        self._run(self._sweep())

    def close(self) -> None:
        """Stop where it is; what was decided goes on after the next start."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._threads.close()
        self._staging.close()

    # Staging

    async def put(self, sink: Sink, part: str, row_group: int, data: bytes, allow: Allow) -> int:
        """Stage a piece; give the number of its rows when it is on the disk."""
        found, places = await self._threads.run(_read, data)
        for destination in places:
            allow(destination)
        now_ms = self._runtime.clock.now_ms()
        await self._threads.run(self._staging.put, sink, part, row_group, data, now_ms)
        return found.rows

    async def abort(self, sink: Sink, parts: list[str]) -> None:
        """Drop staged parts, but for those that were committed."""
        await self._threads.run(self._staging.drop, sink, parts)

    # Committing

    async def commit(self, order: Order, allow: Allow) -> IngestBatch:
        """Publish a batch once; give how far it is, when all of it is published or after a while."""
        if self._closed:
            raise BrokerClosed("the server stops: commit again when it has started")
        task = self._committing.get(order.sink)
        if task is None:
            known = self._commit_log.find(order.sink, order.number, order.origin)
            if known is not None and known.published:
                return known
            work = self._decide(order, allow) if known is None else self._resume(known)
            task = self._committing[order.sink] = self._run(work)
        done, _ = await asyncio.wait((task,), timeout=COMMIT_S)
        known = self._commit_log.find(order.sink, order.number, order.origin)
        if not done and known is not None:
            return known
        if not done:
            return IngestBatch(order.sink, order.number, order.rows, 0)
        if task.cancelled():
            raise BrokerClosed("the server stops: commit again when it has started")
        batch = task.result()
        if batch.number != order.number:
            raise PreconditionFailed(f"batch {batch.number} of sink '{order.sink.name}' was being committed: try again")
        return batch

    async def _decide(self, order: Order, allow: Allow) -> IngestBatch:
        """Check a batch, decide on it, and publish it."""
        batch = IngestBatch(order.sink, order.number, order.rows, 0, order.origin, order.once, order.shares)
        await self._threads.run(self._staging.claim, order.sink, order.shares)
        try:
            await self._check(batch, order, allow)
            with self._runtime as core:
                batch.decided_ms = core.now_ms
                self._commit_log.decide(batch)
                commit_batch = self._runtime.commit()
        except BaseException:
            self._staging.release(order.sink, order.shares)
            raise
        await self._runtime.wait_async(commit_batch)
        return await self._roll(batch)

    async def _check(self, batch: IngestBatch, order: Order, allow: Allow) -> None:
        """Refuse a batch of which not every row could be published now."""
        allowed: set[RowDestination] = set()
        empty: set[RowDestination] = set()
        rows = unroutable = 0
        row_groups = row_groups_of(self._staging, batch, self._runtime.options.message_bytes_max)
        waiting = chunks(_noted(row_groups, empty), read=IngestRows.outline)
        while chunk := await self._threads.run(next, waiting, None):
            new = destinations_of(chunk) - allowed
            for destination in new:
                allow(destination)
            with self._definitions() as core:
                unroutable += check(core, order.sink.vhost, chunk, new)
            allowed |= new
            rows += len(chunk)
        for destination in empty - allowed:
            allow(destination)
        if rows != order.rows:
            raise PreconditionFailed(f"{rows} rows are staged, not {order.rows}: write the batch again")
        if unroutable and order.unroutable == "refuse":
            raise PreconditionFailed(
                f"{unroutable} of {rows} rows would reach no queue, so none is published: bind a queue for them, or "
                "choose to drop such rows"
            )

    async def _resume(self, batch: IngestBatch) -> IngestBatch:
        """Go on with a batch that was decided on before a restart."""
        self._staging.claim(batch.sink, batch.shares)
        return await self._roll(batch)

    async def _roll(self, batch: IngestBatch) -> IngestBatch:
        """Publish a batch that was decided on, and note that."""
        shares = batch.shares
        while not await self._forward(batch):
            await asyncio.sleep(AWAY_S)
        with self._runtime:
            self._commit_log.finish(batch)
            commit_batch = self._runtime.commit()
        await self._runtime.wait_async(commit_batch)
        with self._runtime as core:
            core.streams.forget(batch.producer.encode())
        self._staging.release(batch.sink, shares)
        await self._threads.run(self._staging.drop, batch.sink, [share.part for share in shares])
        return batch

    async def _forward(self, batch: IngestBatch) -> bool:
        """Publish the rest of a batch; False when what was staged cannot be read now."""
        bytes_max = self._runtime.options.message_bytes_max
        put_away = partial(self._put_away, batch.sink.vhost)
        drop = partial(drop_unused, self._runtime)
        roll = RollForward(self._commit_log, self._staging, batch, bytes_max, put_away, drop, self._other_shards)
        written = 0
        while not roll.ended:
            try:
                await self._threads.run(roll.load)
            except BlobStoreFailed as error:
                LOG.warning("batch waits for the store", sink=batch.sink.name, batch=batch.number, reason=error)
                return False
            with self._runtime as core:
                moved = roll.step(core)
                commit_batch = self._runtime.commit()
            # One commit batch is written while the next one is made.
            await self._runtime.wait_async(written)
            written = commit_batch
            if not moved:
                await asyncio.sleep(FULL_S)
        return True

    def _put_away(self, vhost: str, chunk: Chunk) -> Chunk:
        """Rows with pointers instead of bodies that are large."""
        if isinstance(chunk, RowRun) and chunk.packed.longest <= self._runtime.blob_bytes:
            return chunk
        return [self._stored(vhost, row) for row in chunk]

    def _stored(self, vhost: str, row: IngestRow) -> IngestRow:
        """A row with a pointer instead of its body, if that is large."""
        if len(row.body) <= self._runtime.blob_bytes:
            return row
        with self._runtime as core:
            if goes_to_stream(core, vhost, row.destination):
                return row
        stored = put_away(self._runtime, row.message._replace(data=row.body))
        return row._replace(message=stored, body=stored.data, sent=row.body)

    # What operators see

    def described(self, vhost: str, user: str) -> Iterator[dict[str, Any]]:
        for sink, batches in self._commit_log.of(vhost, user):
            told = [answer(each) for each in batches]
            yield {"name": sink.name, "staged_bytes": self._staging.bytes_of(sink), "batches": told}

    async def delete(self, sink: Sink) -> None:
        with self._runtime:
            self._commit_log.delete(sink)
            commit_batch = self._runtime.commit()
        await self._runtime.wait_async(commit_batch)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now_ms = self._runtime.clock.now_ms()
            swept = await self._threads.run(self._staging.sweep, now_ms)
            if swept:
                LOG.info("abandoned pieces dropped", row_groups=swept)
            with self._runtime:
                self._commit_log.expire(now_ms - self._age_ms)

    def _run(self, work: Any) -> asyncio.Task[Any]:
        """A task that is kept until it ends; its waiter hears of its failure, and so does the log."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        for sink in [sink for sink, each in self._committing.items() if each is task]:
            del self._committing[sink]
        error = None if task.cancelled() else task.exception()
        if isinstance(error, GONE):
            LOG.warning("work on a sink failed", reason=error)
        elif error is not None and not isinstance(error, REFUSALS):
            LOG.error("work on a sink failed", error)


def _read(data: bytes) -> tuple[RowGroup, set[RowDestination]]:
    """A piece and where it goes. In a thread: it may name a destination for each of a million rows."""
    row_group = RowGroup(data)
    return row_group, destinations(row_group)


def _noted(row_groups: Iterator[IngestRows], empty: set[RowDestination]) -> Iterator[IngestRows]:
    """The same, noting where those without rows would go: a commit is refused for them as for rows."""
    for rows in row_groups:
        if not len(rows):
            empty |= rows.destinations
        yield rows


def answer(batch: IngestBatch) -> dict[str, Any]:
    """What is told about a batch: the same whenever it is asked for."""
    state = "published" if batch.published else "publishing"
    return {"batch": batch.number, "state": state, "rows": batch.rows, "done": batch.done, "dropped": batch.dropped}
