"""A stream of one or more partitions; records with the same key are in the same one, in their order."""

from collections.abc import Callable, Sequence

from leveret.core.errors import DiskFull, InvalidArgument, JournalFailed
from leveret.core.exchanges.hashing import stable_hash
from leveret.core.membership import PARTITIONS_MAX
from leveret.journal.commit import stop_process
from leveret.journal.disk import Disk
from leveret.stream.log import Log
from leveret.stream.options import StreamOptions
from leveret.stream.reader import offset_at
from leveret.stream.segments import Share


class Stream:
    """Partitions, each on a directory of its own."""

    def __init__(
        self,
        disks: Sequence[Disk],
        options: StreamOptions,
        on_failure: Callable[[JournalFailed], None] = stop_process,
    ) -> None:
        """Open every partition; their number stays what it was when the stream was made."""
        if not 1 <= len(disks) <= PARTITIONS_MAX:
            raise InvalidArgument(f"a stream has 1 to {PARTITIONS_MAX} partitions, not {len(disks)}")
        self._turn = 0
        self.partitions: list[Log] = []
        try:
            for number, disk in enumerate(disks):
                self.partitions.append(Log(disk, options, Share(number, len(disks)), on_failure))
        except BaseException:
            self.abandon()
            raise

    def partition_of(self, key: bytes | None) -> int:
        """The partition of a key, the same in every process; without a key they take turns."""
        if key is not None:
            return stable_hash(key) % len(self.partitions)
        self._turn = (self._turn + 1) % len(self.partitions)
        return self._turn

    def commit(self, now_ms: int) -> None:
        """Make what was appended to any partition as durable as was asked for."""
        full = None
        for log in self.partitions:
            try:
                log.commit(now_ms)
            except DiskFull as error:
                full = error
        if full is not None:
            raise full

    def retain(self, now_ms: int, max_age_ms: int | None = None, max_bytes: int | None = None) -> int:
        """Remove the oldest segments that are too old, or too much for a partition; give their number."""
        return sum(log.retain(now_ms, max_age_ms, max_bytes) for log in self.partitions)

    # What consumer groups ask (core/consumer_groups.py)

    def earliest(self, partition: int) -> int:
        """The offset of the oldest record."""
        return self.partitions[partition].first_offset

    def latest(self, partition: int) -> int:
        """The offset after the newest record."""
        return self.partitions[partition].committed

    def at(self, partition: int, timestamp_ms: int) -> int:
        """The offset of the first record of a time or later."""
        return offset_at(self.partitions[partition], timestamp_ms)

    def close(self, now_ms: int) -> None:
        """Commit and close every partition."""
        for log in self.partitions:
            log.close(now_ms)

    def abandon(self) -> None:
        """Let go of the files and leave everything as it is."""
        for log in self.partitions:
            log.abandon()
