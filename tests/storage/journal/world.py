"""A journal on a directory, opened and closed as a test likes."""

import errno
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from leveret.core.errors import JournalFailed
from leveret.storage.disk import Bytes, Disk
from leveret.storage.journal.commit import Commit
from leveret.storage.journal.files.recovery import RecoveredJournal
from leveret.storage.journal.files.store import FileStore
from leveret.storage.journal.journal import FileJournal
from leveret.storage.journal.store import Store
from leveret.storage.options import JournalOptions
from tests.storage.journal.plain_state import PlainState

ROUTE = b"\x06events\x04made"
HEADER = b"header bytes"


class Life:
    """One process that has a journal open, and a plain state on it."""

    store: Store

    def __init__(self, **options: Any) -> None:
        self.now_ms = 1_000_000
        self.failures: list[JournalFailed] = []
        self.settings = JournalOptions(**{"spare_bytes": 0, "disk_free_min_bytes": 0, **options})
        self.journal = FileJournal(self.settings, self.clock)
        self.state = PlainState(self.journal)

    @property
    def commit(self) -> Commit:
        return self.store.commit

    @property
    def recovered(self) -> RecoveredJournal:
        return self.store.recovered

    def clock(self) -> int:
        return self.now_ms

    def publish(self, body: bytes = b"body", queues: tuple[int, ...] = (1,), **facts: int) -> int:
        facts.setdefault("now_ms", self.now_ms)
        return self.state.publish(list(queues), ROUTE, HEADER + body, len(HEADER), **facts)

    def durably(self, body: bytes = b"body", queues: tuple[int, ...] = (1,), **facts: int) -> int:
        """Publish one message in a frame of its own."""
        seq = self.publish(body, queues, **facts)
        self.commit.flush()
        return seq

    def bodies(self) -> dict[int, dict[int, bytes]]:
        return {
            queue: {seq: self.state.read(queue, seq).body for seq in sorted(messages)}
            for queue, messages in sorted(self.state.queues.items())
            if messages
        }

    def facts(self) -> tuple[object, ...]:
        """All that must be the same after a restart."""
        return (
            self.state.contents(),
            self.bodies(),
            sorted(self.state.definitions),
            {key: value[:2] for key, value in self.state.dedup.items()},
        )

    def close(self) -> None:
        self.store.close()

    def kill(self) -> None:
        self.store.abandon()


class World(Life):
    """One process that has a data directory open, inline unless it is asked for a thread."""

    def __init__(
        self,
        disk: Disk | Path,
        *,
        threaded: bool = False,
        salvage: bool = False,
        names: Callable[[set[int]], dict[int, str]] = lambda numbers: {},
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.disk = Disk(disk) if isinstance(disk, Path) else disk
        self.store = FileStore(
            self.disk,
            self.journal,
            self.state,
            threading.Lock(),
            self.clock,
            self.settings,
            threaded=threaded,
            salvage=salvage,
            on_failure=self.failures.append,
            names=names,
        )


class QuickDisk(Disk):
    """A disk that does not sync, for tests that open a journal thousands of times."""

    def datasync(self, fd: int) -> None:
        pass

    def sync(self, fd: int) -> None:
        pass

    def sync_dir(self) -> None:
        pass


class FaultyDisk(Disk):
    """A disk on which calls fail as told: by their number, or by their name from then on."""

    COUNTED = (
        "open_append", "open_read", "write", "datasync", "sync", "pread", "read_all", "size", "truncate", "allocate",
        "rename", "unlink", "names", "sync_dir", "free_bytes",
    )  # fmt: skip

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.calls: list[str] = []
        self.fail_at = 0
        self.failing: dict[str, int] = {}
        self.write_bytes_max = 1 << 62
        self.room_bytes = 1 << 62

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name not in FaultyDisk.COUNTED:
            return value

        def counted(*arguments: Any) -> Any:
            self.calls.append(name)
            if len(self.calls) == self.fail_at:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if name in self.failing:
                raise OSError(self.failing[name], os.strerror(self.failing[name]))
            return value(*arguments)

        return counted

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        """Write no more than is allowed in one call, and no more than there is room for."""
        data = b"".join(bytes(buffer) for buffer in buffers)[: min(self.write_bytes_max, self.room_bytes)]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = os.write(fd, data)
        self.room_bytes -= written
        return written

    def unlink(self, name: str) -> None:
        """Removing a file makes room."""
        self.room_bytes += self.size(name)
        super().unlink(name)

    def free_bytes(self) -> int:
        return self.room_bytes
