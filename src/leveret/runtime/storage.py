"""Opening the core on a data directory or a database."""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from leveret.clock import Clock
from leveret.config import Options
from leveret.core.broker import Broker
from leveret.core.errors import InvalidArgument, JournalFailed
from leveret.storage.disk import Disk
from leveret.storage.encryption import load_keys
from leveret.storage.journal.commit import stop_process
from leveret.storage.journal.files.meta import Meta
from leveret.storage.journal.files.recovery import verify as verify_directory
from leveret.storage.journal.files.segments import shard_name
from leveret.storage.journal.files.store import FileStore
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.postgres.store import TableStore, Takeover
from leveret.storage.journal.store import Store
from leveret.storage.options import JournalOptions, StreamOptions, is_url
from leveret.storage.segments import Damage
from leveret.storage.stream.postgres import TableStreamDirectories
from leveret.storage.stream.recovery import verify_partition
from leveret.storage.stream.store import Fetch, FileStreamDirectories, StreamDirectories, StreamStore, no_blobs

STREAMS = "streams"
MEMORY_SEGMENT_BYTES = 16 << 20  # a segment is one piece of memory
TABLE_SEGMENT_BYTES_MIN = 1 << 20  # each is a table, and clients choose their size
TABLE_CHECKPOINT_BYTES = 16 << 20  # the next owner reads about so much of each stream
TAG_DIGITS = 15  # 60 bits of the broker's own UUID begin every message id

FAILURES: dict[str, Callable[[JournalFailed], None]] = {"exit": stop_process, "raise": lambda error: None}


def tag_of(meta: Meta) -> int:
    """The part of message ids that is the broker's own."""
    return int(meta.broker.replace("-", "")[:TAG_DIGITS], 16)


@dataclass(frozen=True)
class ShardChoice:
    """Which part of a store in PostgreSQL is opened; a single node has the only one, at the next epoch."""

    number: int = 0
    claim: Takeover | None = None


SINGLE = ShardChoice()


def open_store(
    place: str, options: Options, clock: Clock, lock: threading.Lock, shard: ShardChoice = SINGLE
) -> tuple[Broker, Store]:
    """Recover the broker that a directory or a database holds."""
    core, store = (
        _open_table(place, options, clock, lock, shard) if is_url(place) else _open_file(place, options, clock, lock)
    )
    core.engine.tag = tag_of(store.meta)
    return core, store


def _open_table(
    url: str, options: Options, clock: Clock, lock: threading.Lock, shard: ShardChoice
) -> tuple[Broker, Store]:
    """Take over a shard of a store in PostgreSQL."""
    if options.salvage:
        raise InvalidArgument("salvage is for files: PostgreSQL does not tear what it stores; restore a backup of it")
    postgres = _postgres("statements")
    chosen = journal_options(options)
    if shard.claim is not None and chosen.archive_dir is not None:
        chosen = replace(chosen, archive_dir=os.path.join(chosen.archive_dir, shard_name(shard.number)))
    journal = FileJournal(chosen, clock.now_ms)
    core = Broker(journal)
    return core, TableStore(
        postgres.PostgresTable(url, shard.number),
        journal,
        core.restorer,
        lock,
        clock.now_ms,
        chosen,
        claim=shard.claim,
        names=lambda numbers: names_of(core, numbers),
        on_failure=FAILURES[options.on_failure],
    )


def _postgres(name: str) -> ModuleType:
    """What speaks with PostgreSQL; its library is needed only by those who use it."""
    try:
        return import_module(f"leveret.storage.journal.postgres.{name}")
    except ImportError:
        raise InvalidArgument("a store in PostgreSQL needs a library: pip install 'leveret[cluster]'") from None


def names_of(core: Broker, numbers: set[int]) -> dict[int, str]:
    """The names of queues by their numbers."""
    return {number: core.queues[number].name for number in numbers & core.queues.keys()}


def _open_file(path: str, options: Options, clock: Clock, lock: threading.Lock) -> tuple[Broker, Store]:
    """Recover what a directory holds."""
    chosen = journal_options(options)
    journal = FileJournal(chosen, clock.now_ms)
    core = Broker(journal)
    core.log.salvage = options.salvage
    store = FileStore(
        Disk(path),
        journal,
        core.restorer,
        lock,
        clock.now_ms,
        chosen,
        salvage=options.salvage,
        names=lambda numbers: names_of(core, numbers),
        on_failure=FAILURES[options.on_failure],
    )
    if options.salvage:
        with lock:
            core.log.define_recovered()
            store.commit.kick()
    return core, store


def open_streams(
    core: Broker,
    path: str | None,
    options: Options,
    store: Store | None = None,
    fetch: Fetch = no_blobs,
    shard: int = 0,
) -> StreamStore:
    """The streams of a core, beside its log or, without a path, in memory; `fetch` gets large bodies."""
    if path is None or store is None:
        return StreamStore(core, StreamDirectories(), StreamOptions(sync="never", segment_bytes=MEMORY_SEGMENT_BYTES))
    keys = store.options.keys
    if isinstance(store, TableStore):
        directories = TableStreamDirectories(
            _postgres("streams").PostgresStreams(path, shard, store.epoch), store.questions
        )
        store.store_beside(directories.changes)
        chosen = StreamOptions(
            segment_bytes_min=TABLE_SEGMENT_BYTES_MIN, checkpoint_bytes=TABLE_CHECKPOINT_BYTES, keys=keys
        )
        return StreamStore(core, directories, chosen, fetch)
    chosen = StreamOptions(sync=options.sync, interval_ms=options.interval_ms, keys=keys, salvage=options.salvage)
    return StreamStore(core, FileStreamDirectories(Path(path) / STREAMS), chosen, fetch)


def journal_options(options: Options) -> JournalOptions:
    """The options as the journal knows them."""
    return JournalOptions(
        sync=options.sync,
        interval_ms=options.interval_ms,
        segment_bytes=options.segment_bytes,
        cache_bytes=options.cache_bytes,
        checkpoint_bytes=options.checkpoint_bytes,
        spare_bytes=options.spare_bytes,
        disk_free_min_bytes=options.disk_free_min_bytes,
        archive_dir=options.archive_dir,
        history_age_ms=int(options.history_age_s * 1_000),
        history_bytes=options.history_bytes,
        history_events=options.history_events,
        blob_bytes=options.blob_bytes,
        blob_url=options.blobs,
        keys=load_keys(options.encryption_key_file, options.encryption_key_env),
    )


def _verify_streams(path: Path) -> list[Damage]:
    """Check the segments of all streams."""
    return [
        Damage(str(partition.relative_to(path.parent) / flaw.name), flaw.offset, flaw.why)
        for partition in sorted(path.glob("*/*"))
        for flaw in verify_partition(Disk(partition))
    ]


def verify(path: str | os.PathLike[str]) -> list[Damage]:
    """Check every byte of a data directory that no broker has open against its checksums; give what is damaged."""
    disk = Disk(path)
    disk.lock()
    try:
        return [*verify_directory(disk), *_verify_streams(Path(path) / STREAMS)]
    finally:
        disk.unlock()
