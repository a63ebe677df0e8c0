"""Figures of queues and of the whole broker."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields

from leveret.core import browse, tally
from leveret.core.broker import Broker as Core
from leveret.core.names import INTERNAL_VHOST
from leveret.core.outcomes import DEATHS
from leveret.core.queue import Queue as CoreQueue
from leveret.storage.journal.postgres_figures import FIGURES
from leveret.storage.journal.store import Store
from leveret.storage.stream.store import StreamStore

POSTGRES = FIGURES
"""The connections of this process to PostgreSQL."""
COUNTED = ("published", "delivered", "redelivered", "acked", "nacked", "timed_out", "refused", "dropped", "moved")


@dataclass(frozen=True, slots=True)
class QueueStats:
    """What a queue holds now, and what happened in it since the broker was opened."""

    name: str
    ready: int
    ready_bytes: int
    leased: int
    scheduled: int
    backing_off: int
    depth_by_priority: dict[int, int]
    oldest_age: float | None
    """Seconds since the oldest ready message was sent."""
    consumers: int
    waiters: int
    """Receivers that wait for a message."""
    paused: bool
    published: int
    published_by_priority: dict[int, int]
    """Those that came, by priority; all with 0 when the queue has no priorities."""
    delivered: int
    redelivered: int
    acked: int
    nacked: int
    timed_out: int
    refused: int
    dropped: int
    """Purged, cancelled or past the retention."""
    moved: int
    dead: dict[str, int]
    """By reason: rejected, expired, maxlen, delivery_limit."""

    @property
    def expired(self) -> int:
        """Messages whose time to live ended."""
        return self.dead["expired"]


@dataclass(frozen=True, slots=True)
class JournalStats:
    """What the journal of a broker on files has done since it was opened."""

    sync: str
    """always: confirmed means on disk. interval, never: a power cut may lose what was confirmed."""
    frames: int
    """Commits, each of whatever was sent while the one before it was written."""
    syncs: int
    messages_per_sync: float
    segments: int
    log_bytes: int
    unwritten_bytes: int
    cached_bytes: int
    full: bool
    """Publishes are refused because the disk is nearly full."""
    archive_problem: str | None
    """Why segments that should be in the archive are still in the log."""
    history_segments: int
    """Segments that are kept for the pipeline after they have left the log, and their bytes."""
    history_bytes: int
    history_begins_ms: int | None
    """From when on every event is in history or the log; None: since the store was made."""
    history_dropped: int
    """Segments of history that a limit has removed since the broker was opened."""
    events_dropped: int
    """Events that are not in history, because the disk did not keep up."""


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What opening a directory found there."""

    from_checkpoint: bool
    segments: int
    frames: int
    """Commits that were replayed."""
    entries: int
    torn_bytes: int
    """Of a last commit that was never confirmed; cut off."""
    skipped_frames: int
    """Damaged commits that `salvage` left out, with their bytes and the messages that they seem to have held."""
    skipped_bytes: int
    skipped_messages: int
    seconds: float
    lost_records: int
    """Of streams, which `salvage` could not save; all others have the offsets that they had."""


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """Totals of all queues, and the journal when there is one."""

    queues: int
    ready: int
    ready_bytes: int
    leased: int
    scheduled: int
    counts: dict[str, int]
    dead: dict[str, int]
    journal: JournalStats | None = None


def queue_stats(queue: CoreQueue, waiters: int) -> QueueStats:
    """The figures of one queue."""
    counts = queue.counts
    oldest_ms = browse.oldest_ms(queue)
    return QueueStats(
        name=queue.name,
        ready=queue.depth,
        ready_bytes=queue.depth_bytes,
        leased=queue.leased,
        scheduled=queue.scheduled,
        backing_off=queue.backing_off,
        depth_by_priority=browse.depth_by_priority(queue),
        oldest_age=None if oldest_ms is None else (queue.engine.now_ms - oldest_ms) / 1000,
        consumers=len(queue.consumers or ()),
        waiters=waiters,
        paused=queue.paused,
        **{name: counts[name] for name in COUNTED},
        published_by_priority=tally.published_by_priority(queue),
        dead={reason: counts[reason] for reason in DEATHS},
    )


def broker_stats(core: Core) -> BrokerStats:
    """The figures of all queues together, but for those that shards have for themselves."""
    queues = [queue for queue in core.queues.values() if queue.vhost != INTERNAL_VHOST]
    return BrokerStats(
        queues=len(queues),
        ready=sum(queue.depth for queue in queues),
        ready_bytes=sum(queue.depth_bytes for queue in queues),
        leased=sum(queue.leased for queue in queues),
        scheduled=sum(queue.scheduled for queue in queues),
        counts=_totals(queues, COUNTED),
        dead=_totals(queues, DEATHS),
    )


def journal_stats(store: Store, first_batch: int, published: int) -> JournalStats:
    """The figures of a store whose first commit batch in this process had that number."""
    journal = store.journal
    frames = journal.durable + 1 - first_batch
    sizes = store.sizes()
    problem = store.archive_problem
    return JournalStats(
        sync=store.options.sync,
        frames=frames,
        syncs=store.syncs,
        messages_per_sync=published / store.syncs if store.syncs else 0.0,
        segments=len(sizes),
        log_bytes=sum(sizes.values()),
        unwritten_bytes=journal.unwritten_bytes,
        cached_bytes=journal.cached_bytes,
        full=journal.full,
        archive_problem=None if problem is None else str(problem),
        **{f"history_{name}": figure for name, figure in asdict(store.history.figures).items()},
        events_dropped=journal.events.dropped,
    )


def history_begins_ms(journals: Iterable[JournalStats]) -> int | None:
    """From when on the history of several shards is complete; None: since they were made."""
    return max((each.history_begins_ms for each in journals if each.history_begins_ms is not None), default=None)


def recovery_report(store: Store, streams: StreamStore) -> RecoveryReport:
    """What recovery found, as users see it."""
    found = vars(store.recovered) | {"lost_records": streams.lost_records}
    return RecoveryReport(**{each.name: found[each.name] for each in fields(RecoveryReport)})


def _totals(queues: Iterable[CoreQueue], names: tuple[str, ...]) -> dict[str, int]:
    totals: Counter[str] = Counter(dict.fromkeys(names, 0))
    for queue in queues:
        counts = queue.counts
        totals.update({name: counts[name] for name in names})
    return dict(totals)
