"""What a broker does beside its messages: checkpoints, compaction, retention of streams, deletion of large bodies.

It has a thread of its own, because it waits for disks and blob stores, which must not hold up a message that is due.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.clock import NEVER_MS
from leveret.core.errors import JournalError, JournalFailed
from leveret.runtime.key_rotation import OtherKeys, Rotation
from leveret.runtime.large_bodies import LargeBodies
from leveret.runtime.threads import Ticker
from leveret.storage.journal.store import Store
from leveret.storage.stream.store import StreamStore

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

HOUSEKEEP_MS = 1_000  # how often, while something is written, checkpoints and compaction get a chance
BUSY_MS = 10  # between two rounds of a compaction: others get the disk and the lock
HOUSEKEEP_STEPS = 8  # segments that one round may remove: a fast publisher must not outrun it
HOUSEKEEP_SEGMENTS = 2  # segments that may be written before the next round, however little time has passed


class Housekeeper:
    """Looks after the store of one broker, a bounded piece at a time; idle while nothing is written."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._clock = runtime.clock
        self._ticker = Ticker(runtime.clock, runtime.lock, self.step, "leveret-housekeeper")
        self._segment = 0
        self.rotation: Rotation | None = None

    # Under the lock

    def plan(self) -> None:
        """Look around soon, unless that is planned."""
        if self._ticker.planned_ms == NEVER_MS:
            self._ticker.plan(self._clock.now_ms() + HOUSEKEEP_MS)

    def attach(self, store: Store) -> None:
        """Look after a store from now on."""
        self._segment = store.journal.segment + HOUSEKEEP_SEGMENTS
        if store.journal.full or store.watched:
            self.plan()  # nothing is committed as long as all publishes are refused: look for room

    def written(self, segment: int) -> None:
        """Something was appended to a segment of the journal: look around soon, at once if there are some new ones."""
        if self._ticker.planned_ms == NEVER_MS:
            self.plan()
        if segment >= self._segment:
            self._segment = segment + HOUSEKEEP_SEGMENTS
            self._ticker.plan(self._clock.now_ms())

    def rotate_key(self, other_keys: OtherKeys) -> Rotation:
        """Encrypt everything by the first key from now on; the rotation that is under way, if there is one."""
        if self.rotation is None or self.rotation.progress.state != "running":
            self.rotation = Rotation(self._runtime, other_keys)
            self._ticker.plan(self._clock.now_ms())
        return self.rotation

    # In its own thread

    def step(self) -> int:
        """Checkpoint, compact and delete a bounded piece; give the time of the next one."""
        try:
            wait_ms = self._step()
        except JournalFailed:
            return NEVER_MS  # every verb raises it from now on
        except JournalError:
            wait_ms = HOUSEKEEP_MS
        return NEVER_MS if wait_ms is None else self._clock.now_ms() + wait_ms

    def _step(self) -> int | None:
        """The same; after how long there is more, None when there is not."""
        streams, store, large = self._runtime.commits.streams, self._runtime.store, self._runtime.large
        again = streams is not None and self._keep_streams_small(streams)
        if store is None:
            return HOUSEKEEP_MS if again else None
        more = all(store.housekeep() for _ in range(HOUSEKEEP_STEPS))
        again = again or more or store.watched or store.journal.full or store.drains
        again = again or store.archive_problem is not None
        if large is not None and not self._delete_blobs(large, store):
            again = True
        if self.rotation is not None and self.rotation.step():
            return BUSY_MS
        return (BUSY_MS if more else HOUSEKEEP_MS) if again else None

    def _keep_streams_small(self, streams: StreamStore) -> bool:
        """Retain and remove streams, and put out silent members of groups; True while there is something to look at."""
        store, commits = self._runtime.store, self._runtime.commits
        with self._runtime.lock:
            gone = streams.take_gone()
            streams.groups.expire(self._clock.now_ms())
            if commits.commit_lazily():
                self.plan()
        if gone and store is not None:
            store.commit.force()
        try:
            streams.remove(gone)
            streams.retain(self._clock.now_ms())
        except (OSError, JournalFailed) as error:
            if store is None:
                raise
            raise store.commit.fail(error) from error
        with self._runtime.lock:
            if streams.dirty:
                commits.kick()
        return len(streams) > 0

    def _delete_blobs(self, large: LargeBodies, store: Store) -> bool:
        """Delete the blobs of messages that were settled for good; False when some are left."""
        with self._runtime.lock:
            released = large.release()
        if released:
            store.commit.force()
        return not released or large.delete()

    def stop(self) -> None:
        """End the thread."""
        self._ticker.stop()
