"""The real journal on a simulated disk, and on top of it the plain state, as small as it can be."""

import dataclasses
from collections.abc import Callable
from contextlib import nullcontext

from leveret.core.ports import JournaledState
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.files.store import FileStore
from leveret.storage.journal.journal import FileJournal
from leveret.storage.options import JournalOptions
from tests.sim.checker import Held, Snapshot
from tests.sim.simdisk import SimDisk
from tests.storage.journal.plain_state import PlainState

NOW_MS = 1_000
ROUTE = b"\x00\x01q"
DEFINITION = 1
COPIED_BYTES = 600
"""Copied in one step of compaction: it often needs several."""
OPTIONS = JournalOptions(segment_bytes=1 << 10, cache_bytes=1, spare_bytes=1 << 10, disk_free_min_bytes=0)
"""Segments of a few frames; no cache, so that messages are read back from the disk."""


def options_with(keys: MasterKeys) -> JournalOptions:
    """The same options, encrypted."""
    return dataclasses.replace(OPTIONS, keys=keys)


def clock() -> int:
    """Time stands still."""
    return NOW_MS


class EagerStore(FileStore):
    """A store that compacts whatever it may, so that live records are copied often."""

    def _is_worth_copying(self, segment: int) -> bool:
        """Always."""
        return True


class Life:
    """What every node has: a journal that it opens, commits, compacts and closes."""

    store_class: type[FileStore] = EagerStore
    salvage = False

    def open(
        self,
        disk: SimDisk,
        journal: FileJournal,
        state: JournaledState,
        clock: Callable[[], int],
        options: JournalOptions,
    ) -> None:
        """Recover what the disk holds into a state."""
        self.journal = journal
        self.store = self.store_class(
            disk,
            journal,
            state,
            nullcontext(),
            clock,
            options,
            threaded=False,
            salvage=self.salvage,
            on_failure=lambda error: None,
        )

    @property
    def pending(self) -> int:
        """The frame that is being filled."""
        return self.journal.pending

    @property
    def durable(self) -> int:
        """The last frame that a publisher was told to be durable."""
        return self.journal.durable

    @property
    def full(self) -> bool:
        """Whether publishes are to be refused."""
        return self.journal.full

    @property
    def identity(self) -> tuple[str, str]:
        """What must stay the same for the life of a data directory."""
        return self.store.meta.broker, self.store.meta.receipt_key

    def commit(self) -> None:
        """Make all that was done durable."""
        self.store.commit.flush()

    def checkpoint(self) -> None:
        """Write the whole state."""
        self.store.checkpoint()

    def compact(self) -> None:
        """Do a step towards removing the oldest segment."""
        self.store.compact(COPIED_BYTES)

    def close(self) -> None:
        """End in peace."""
        self.store.close()

    def rest(self) -> None:
        """Be idle for a while, as the writer thread is, and be killed then."""
        self.store.commit.flush()
        self.store.commit.mark()
        self.store.commit.sync()
        self.store.abandon()


class Node(Life):
    """One life of the plain state, from recovery to crash."""

    def __init__(self, disk: SimDisk) -> None:
        """Recover what the disk holds."""
        journal = FileJournal(OPTIONS, clock)
        self.state = PlainState(journal)
        self.open(disk, journal, self.state, clock, OPTIONS)

    def publish(self, queues: list[int], held: Held) -> int:
        """Put a message into queues; give its number."""
        return self.state.publish(
            queues,
            ROUTE,
            held.content,
            priority=held.priority,
            expiry_ms=held.expiry_ms,
            due_ms=held.due_ms,
            now_ms=NOW_MS,
        )

    def deliver(self, queue: int, seq: int) -> None:
        """Count a delivery."""
        self.state.deliver(queue, seq)

    def give_back(self, queue: int, seq: int, due_ms: int) -> None:
        """End a delivery without settling."""
        self.state.give_back(queue, seq, due_ms=due_ms)

    def settle(self, queue: int, seq: int) -> None:
        """Take a message out of a queue for good."""
        self.state.settle(queue, seq)

    def purge(self, queue: int, keep: list[int]) -> None:
        """Empty a queue but for some messages."""
        self.state.purge(queue, keep)

    def define(self, payload: bytes) -> None:
        """Make a definition."""
        self.state.define(DEFINITION, payload)

    def deduplicate(self, queue: int, digest: bytes, seq: int) -> None:
        """Take a de-duplication key."""
        self.state.deduplicate(queue, digest, seq, NOW_MS)

    def snapshot(self) -> Snapshot:
        """All that must survive, each message read back."""
        state = self.state
        messages = {
            (queue, seq): Held(
                content=state.read(queue, seq).content,
                priority=held.priority,
                expiry_ms=held.expiry_ms,
                deliveries=held.deliveries,
                due_ms=held.due_ms,
            )
            for queue, entries in state.queues.items()
            for seq, held in entries.items()
        }
        definitions = {payload for _, payload in state.definitions}
        dedup = {key: seq for key, (seq, _, _) in state.dedup.items()}
        return Snapshot(messages, definitions, dedup, state.seq)
