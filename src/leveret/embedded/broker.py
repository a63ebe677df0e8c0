"""The broker as its users see it: opens and declares, and closes everything."""

import os
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from leveret.clock import Clock, SystemClock
from leveret.config import Options
from leveret.core.arguments import QUEUE_TYPE
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument, MessageNotFound, NotSupported
from leveret.core.names import described
from leveret.core.policy import Policy
from leveret.core.ports import Journal
from leveret.core.queue import Queue as CoreQueue
from leveret.core.queue_types import STREAM
from leveret.embedded.consumer import Subscription
from leveret.embedded.declare import new_arguments, redeclared
from leveret.embedded.exchange import Exchange
from leveret.embedded.outgoing import PreparedMessage
from leveret.embedded.queue import Queue
from leveret.embedded.stream import Stream, stream_arguments
from leveret.embedded.verbs import Durable, durably, in_thread, twin
from leveret.embedded.worker import Worker
from leveret.runtime.large_bodies import LargeBodies, open_blobs
from leveret.runtime.options import options_of
from leveret.runtime.receipts import Receipts
from leveret.runtime.runtime import Runtime
from leveret.runtime.stats import BrokerStats, RecoveryReport, broker_stats, journal_stats, recovery_report
from leveret.runtime.storage import SINGLE, TAG_DIGITS, ShardChoice, open_store, open_streams
from leveret.runtime.tracing import start_tracing
from leveret.storage.journal.postgres.store import Takeover

VHOST = "/"


class Broker:
    """A broker in this process, from leveret.open(); safe to use from any number of threads and tasks.

    `queue` and `exchange` declare what you send to, `policy` sets options by name, `stats` counts, `close` ends it.
    Verbs that change something return when that is durable.
    """

    def __init__(self, runtime: Runtime, options: Options, secret: bytes) -> None:
        self.runtime = runtime
        self.options = options
        self.receipts = Receipts(secret)
        self.running: WeakSet[Worker | Subscription] = WeakSet()
        self.blob_bytes = options.message_bytes_max if runtime.large is None else options.blob_bytes
        if options.tracing:
            start_tracing(runtime, options)

    # Queues

    @durably
    def queue(
        self,
        /,
        name: str,
        *,
        durable: bool = True,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = VHOST,
        **options: Any,
    ) -> Durable[Queue]:
        """The queue of that name, made if need be; options that contradict an existing one are refused."""
        commit_batch, queues = self._declare_queues([name], durable, arguments, vhost, options)
        return commit_batch, queues[0]

    @durably
    def declare_queues(
        self,
        /,
        names: Iterable[str],
        *,
        durable: bool = True,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = VHOST,
        **options: Any,
    ) -> Durable[list[Queue]]:
        """Many queues with the same options, in one commit."""
        return self._declare_queues(names, durable, arguments, vhost, options)

    def _declare_queues(
        self,
        names: Iterable[str],
        durable: bool,
        arguments: Mapping[str, Any] | None,
        vhost: str,
        options: Mapping[str, Any],
    ) -> Durable[list[Queue]]:
        raw = dict(arguments or {})
        if raw.get(QUEUE_TYPE) == STREAM:
            raise InvalidArgument("a stream is made by broker.stream(), and that gives what reads it")
        wanted = new_arguments(options, raw)
        with self.runtime as core:
            known = core.topology.vhost(vhost).queues
            before = core.log.last_queue_id
            queues = []
            for name in names:
                existing = known.get(name)
                if existing is None:
                    queues.append(core.declare_queue(vhost, name, wanted, durable=durable))
                elif options or raw:
                    again = redeclared(existing.arguments or {}, options, raw, described("queue", name, vhost))
                    queues.append(core.declare_queue(vhost, name, again, durable=durable))
                else:
                    queues.append(existing)
            self._declare_dead_letter(core, vhost, options.get("dead_letter"))
            commit_batch = self.runtime.commit() if core.log.last_queue_id != before else 0
        return commit_batch, [Queue(self, queue) for queue in queues]

    def _declare_dead_letter(self, core: Core, vhost: str, name: str | None) -> None:
        """Make the queue for dead letters if there is none; it has no dead letters of its own."""
        if name is not None and name not in core.topology.vhost(vhost).queues:
            core.declare_queue(vhost, name, new_arguments({}, {}))

    # Streams

    @durably
    def stream(
        self,
        name: str,
        *,
        partitions: int | None = None,
        max_age: str | float | timedelta | None = None,
        max_bytes: int | None = None,
        segment_bytes: int | None = None,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = VHOST,
    ) -> Durable[Stream]:
        """The stream of that name, made if need be: a log that is read from any offset, and again.

        It keeps everything, or what is younger than `max_age` (seconds, a timedelta, or a text such as "7D") and at
        most `max_bytes` in each partition; whole segments of `segment_bytes` go at a time.
        """
        given = {**(arguments or {}), **stream_arguments(partitions, max_age, max_bytes, segment_bytes)}
        with self.runtime as core:
            existing = core.topology.vhost(vhost).queues.get(name)
            if existing is None or given:
                kept = {} if existing is None else existing.arguments or {}
                existing = core.declare_queue(vhost, name, {**kept, **given, QUEUE_TYPE: STREAM})
            if existing.recorder is None:
                raise NotSupported(f"'{name}' is a queue, no stream: use broker.queue(), or another name")
            return self.runtime.commit(), Stream(self, existing)

    def streams(self, vhost: str = VHOST) -> list[Stream]:
        """Every stream, by name."""
        with self.runtime as core:
            found = [each for each in core.topology.vhost(vhost).queues.values() if each.recorder is not None]
        return [Stream(self, each) for each in sorted(found, key=lambda each: each.name)]

    def queues(self) -> list[Queue]:
        """Every queue, by name."""
        with self.runtime as core:
            found: list[CoreQueue] = sorted(core.topology.vhost(VHOST).queues.values(), key=lambda each: each.name)
        return [Queue(self, queue) for queue in found]

    # Exchanges and policies

    @durably
    def exchange(
        self,
        name: str,
        type: str | None = None,
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
        vhost: str = VHOST,
    ) -> Durable[Exchange]:
        """The exchange of that name, made if need be (direct unless told otherwise)."""
        with self.runtime as core:
            if type is not None or name not in core.topology.vhost(vhost).exchanges:
                core.declare_exchange(
                    vhost,
                    name,
                    type or "direct",
                    durable=durable,
                    auto_delete=auto_delete,
                    internal=internal,
                    arguments=arguments,
                )
            return self.runtime.commit(), Exchange(self, vhost, name)

    @durably
    def policy(
        self,
        name: str,
        pattern: str,
        definition: Mapping[str, Any],
        *,
        priority: int = 0,
        apply_to: str = "all",
        operator: bool = False,
    ) -> Durable[None]:
        """Give settings (arguments without "x-") to all queues and exchanges whose name the pattern matches."""
        policy = Policy(name, pattern, priority, apply_to, definition, operator)
        with self.runtime as core:
            core.set_policy(VHOST, policy)
            return self.runtime.commit(), None

    @durably
    def delete_policy(self, name: str, *, operator: bool = False) -> Durable[None]:
        """Remove a policy; a missing one is no error."""
        with self.runtime as core:
            core.delete_policy(VHOST, name, operator)
            return self.runtime.commit(), None

    def stats(self) -> BrokerStats:
        """The totals of all queues, and the figures of the journal."""
        with self.runtime as core:
            totals = broker_stats(core)
        store = self.runtime.store
        if store is None:
            return totals
        return replace(totals, journal=journal_stats(store, self.runtime.first_batch, totals.counts["published"]))

    @property
    def recovery(self) -> RecoveryReport | None:
        """What opening the directory found, and what `salvage` had to skip; None for a broker in memory."""
        return None if self.runtime.store is None else recovery_report(self.runtime.store, self.runtime.streams)

    # Large bodies

    def is_large(self, prepared: PreparedMessage) -> bool:
        """Whether the body of a message is kept outside of the log: storing it there takes time."""
        return self.runtime.large is not None and len(prepared.data) > self.blob_bytes

    def put_away(self, prepared: PreparedMessage) -> PreparedMessage:
        """A message with a pointer instead of its body, if that is large."""
        if self.runtime.large is None or not self.is_large(prepared):
            return prepared
        pointer = self.runtime.large.put(prepared.data, self.runtime.clock.now_ms())
        return prepared._replace(data=pointer, blob=True)

    def drop_unused(self, prepared: PreparedMessage) -> None:
        """Delete the body that was put away for a message that no queue took. Under the lock."""
        if self.runtime.large is not None and prepared.blob:
            self.runtime.large.drop_unused(prepared.data)

    def fetch(self, pointer: bytes) -> bytes:
        """The body that was put away."""
        if self.runtime.large is None:
            raise MessageNotFound("the body is in a blob store, and this broker has none: drop the message")
        return self.runtime.large.get(pointer)

    # Coming and going

    def flush(self) -> None:
        """Return when everything that was done until now is durable: acknowledgements do not wait for that."""
        self.runtime.flush()

    def close(self) -> None:
        """Let workers finish, wake who waits, make everything durable, let go of the files; once more is no error."""
        for running in list(self.running):
            running.stop()
        self.runtime.close()

    # The same for asyncio

    aqueue = twin(queue)
    adeclare_queues = twin(declare_queues)
    astream = twin(stream)
    aexchange = twin(exchange)
    apolicy = twin(policy)
    adelete_policy = twin(delete_policy)
    aflush = in_thread(flush)
    aclose = in_thread(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(path: str | os.PathLike[str] | None = None, *, clock: Clock | None = None, **options: Any) -> Broker:
    """A broker on a directory, which is made when it is not there; without a path, in memory only.

    The path may also be the URL of a PostgreSQL database, postgresql://...; the process that opens it takes it over
    from the process that has it open, which stops.

    The options are those of leveret.Options, for example sync="interval" or encryption_key_file="keys". `clock` takes
    a leveret.ManualClock in tests. DataLocked: another process has the directory. DamagedJournal: stored bytes have
    changed.
    """
    chosen = options_of(options)
    ticking = clock or SystemClock()
    if path is None:
        core = Core(Journal(), int(secrets.token_hex(8)[:TAG_DIGITS], 16))
        in_memory = Runtime(core, threading.Lock(), ticking)
        in_memory.keep_streams(open_streams(core, None, chosen))
        return Broker(in_memory, chosen, secrets.token_bytes(32))
    return _open_stored(os.fspath(path), chosen, ticking, SINGLE)


def open_shard(url: str, number: int, claim: Takeover, *, clock: Clock | None = None, **options: Any) -> Broker:
    """The broker of one shard of a store in PostgreSQL, taken over; Fenced: another owner has a higher epoch."""
    return _open_stored(url, options_of(options), clock or SystemClock(), ShardChoice(number, claim))


def _open_stored(place: str, chosen: Options, ticking: Clock, shard: ShardChoice) -> Broker:
    """A broker on a directory or on a shard of a database."""
    lock = threading.Lock()
    core, store = open_store(place, chosen, ticking, lock, shard)
    runtime = Runtime(core, lock, ticking)
    if chosen.on_failure == "raise":
        store.commit.on_failure = runtime.fail
    with ExitStack() as undo:
        undo.callback(store.abandon)
        blobs = open_blobs(place, chosen, store, shard.number)
        undo.callback(blobs.close)
        large = LargeBodies(blobs, store, core)
        runtime.attach(store, large)
        runtime.keep_streams(open_streams(core, place, chosen, store, large.get, shard.number))
        undo.pop_all()
    store.opened()
    return Broker(runtime, chosen, bytes.fromhex(store.meta.receipt_key))
