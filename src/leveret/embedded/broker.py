"""The broker as its users see it: opens and declares, and closes everything."""

import os
import secrets
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, Unpack
from weakref import WeakSet

from leveret.clock import Clock, SystemClock
from leveret.config import Options
from leveret.core.broker import Broker as Core
from leveret.core.errors import InvalidArgument
from leveret.core.policy import Policy
from leveret.core.ports import Journal
from leveret.core.queue import Queue as CoreQueue
from leveret.embedded.exchange import Exchange
from leveret.embedded.queue import Queue, Subscription
from leveret.embedded.stream import Stream
from leveret.embedded.worker import Worker
from leveret.observability.otlp import OtlpSender
from leveret.observability.spans import Spans
from leveret.observability.tracing import BrokerTracer
from leveret.runtime.declare import VHOST, declare_exchange, declare_queues, declare_stream
from leveret.runtime.keywords import OpenOptions, QueueOptions
from leveret.runtime.large_bodies import LargeBodies, open_blobs
from leveret.runtime.runtime import Runtime
from leveret.runtime.stats import BrokerStats, RecoveryReport, broker_stats, journal_stats, recovery_report
from leveret.runtime.storage import SINGLE, TAG_DIGITS, ShardChoice, open_store, open_streams
from leveret.runtime.stream import stream_arguments, streams_of
from leveret.runtime.verbs import Durable, OldTwins, durably, in_thread, twin
from leveret.storage.journal.postgres.store import Takeover
from leveret.storage.options import options_of


def start_tracing(runtime: Runtime, options: Options) -> None:
    """Send spans to a collector from now on, until the runtime is closed; closes it if that cannot be."""
    store, core = runtime.store, runtime.core

    def pending() -> int:
        return 0 if store is None else store.commit.pending

    try:
        sender = OtlpSender(options.tracing_endpoint, os.environ)
    except InvalidArgument:
        runtime.close()
        raise
    runtime.tracer = core.engine.tracer = BrokerTracer(
        runtime.clock,
        Spans(sender, options.tracing_spans_max),
        core.tag,
        pending,
        ratio=options.tracing_ratio,
        rate_max=options.tracing_rate_max,
    )


class Broker(OldTwins):
    """A broker in this process, from leveret.open(); safe to use from any number of threads and tasks.

    `queue` and `exchange` declare what you send to, `policy` sets options by name, `stats` counts, `close` ends it.
    Verbs that change something return when that is durable.
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.running: WeakSet[Worker | Subscription] = WeakSet()
        if runtime.options.tracing:
            start_tracing(runtime, runtime.options)

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
        create: bool = True,
        **options: Unpack[QueueOptions],
    ) -> Durable[Queue]:
        """The queue of that name, made if need be; options that contradict an existing one are refused.

        create=False: QueueNotFound when there is none, so that a misspelt name makes no queue.
        """
        commit_batch, queues = self._declare_queues([name], durable, arguments, vhost, options, create)
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
        **options: Unpack[QueueOptions],
    ) -> Durable[list[Queue]]:
        """Many queues with the same options, in one commit."""
        return self._declare_queues(names, durable, arguments, vhost, options)

    def _declare_queues(
        self,
        names: Iterable[str],
        durable: bool,
        arguments: Mapping[str, Any] | None,
        vhost: str,
        options: QueueOptions,
        create: bool = True,
    ) -> Durable[list[Queue]]:
        commit_batch, made = declare_queues(
            self.runtime, names, options, vhost=vhost, durable=durable, arguments=arguments, create=create
        )
        return commit_batch, [Queue(self, queue) for queue in made]

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
        create: bool = True,
    ) -> Durable[Stream]:
        """The stream of that name, made if need be, unless create=False: a log that is read from any offset, and again.

        It keeps everything, or what is younger than `max_age` (seconds, a timedelta, or a text such as "7D") and at
        most `max_bytes` in each partition; whole segments of `segment_bytes` go at a time.
        """
        given = {**(arguments or {}), **stream_arguments(partitions, max_age, max_bytes, segment_bytes)}
        commit_batch, made = declare_stream(self.runtime, name, given, vhost, create=create)
        return commit_batch, Stream(self, made)

    def streams(self, vhost: str = VHOST) -> list[Stream]:
        """Every stream, by name."""
        return [Stream(self, each.anyway) for each in streams_of(self.runtime, vhost)]

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
        commit_batch, _ = declare_exchange(
            self.runtime,
            name,
            type,
            vhost=vhost,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=arguments,
        )
        return commit_batch, Exchange(self.runtime, vhost, name)

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

    _aqueue = twin(queue)
    _adeclare_queues = twin(declare_queues)
    _astream = twin(stream)
    _aexchange = twin(exchange)
    _apolicy = twin(policy)
    _adelete_policy = twin(delete_policy)
    _aflush = in_thread(flush)
    _aclose = in_thread(close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open(
    path: str | os.PathLike[str] | None = None, *, clock: Clock | None = None, **options: Unpack[OpenOptions]
) -> Broker:
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
        in_memory = Runtime(core, threading.Lock(), ticking, chosen)
        in_memory.keep_streams(open_streams(core, None, chosen))
        return Broker(in_memory)
    return _open_stored(os.fspath(path), chosen, ticking, SINGLE)


def open_shard(
    url: str, number: int, claim: Takeover, *, clock: Clock | None = None, **options: Unpack[OpenOptions]
) -> Broker:
    """The broker of one shard of a store in PostgreSQL, taken over; Fenced: another owner has a higher epoch."""
    return _open_stored(url, options_of(options), clock or SystemClock(), ShardChoice(number, claim))


def _open_stored(place: str, chosen: Options, ticking: Clock, shard: ShardChoice) -> Broker:
    """A broker on a directory or on a shard of a database."""
    lock = threading.Lock()
    core, store = open_store(place, chosen, ticking, lock, shard)
    runtime = Runtime(core, lock, ticking, chosen, bytes.fromhex(store.meta.receipt_key))
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
    return Broker(runtime)
