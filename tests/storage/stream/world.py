"""A stream to test with: small files, and a clock that the test turns."""

from collections.abc import Iterable
from typing import Any

import pytest

from leveret.core.errors import JournalFailed
from leveret.storage.disk import Disk
from leveret.storage.options import StreamOptions
from leveret.storage.stream.blocks import StoredRecord
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.reader import PartitionReader

ROUTE = b"\x06events\x04made"
HEADER = b"properties"
on_files = pytest.mark.parametrize("world", ["files"], indirect=True)
"""For tests of what only files have."""


class World:
    """One process that has a log open."""

    def __init__(self, disk: Disk, **options: Any) -> None:
        self.disk = disk
        self.now_ms = 1_000
        self.options = StreamOptions(**{"segment_bytes": 1 << 20, **options})
        self.failures: list[JournalFailed] = []
        self.log = self.opened()

    def opened(self) -> PartitionLog:
        return PartitionLog(self.disk, self.options, on_failure=self.failures.append)

    def append(self, body: bytes, **facts: Any) -> int | None:
        return self.log.append(self.now_ms, ROUTE, HEADER + body, len(HEADER), **facts)

    def commit(self) -> int:
        return self.log.commit(self.now_ms)

    def fill(self, count: int, commit_each: int = 1) -> None:
        """Append numbered bodies, a few to each block, one of them each 10 ms."""
        for number in range(count):
            self.append(b"body %d" % number)
            self.now_ms += 10
            if number % commit_each == commit_each - 1:
                self.commit()
        self.commit()

    def retain(self, *limits: Any, **named: Any) -> int:
        return self.log.retain(*limits, **named)

    def restart(self) -> None:
        """Close, and open again."""
        self.log.close(self.now_ms)
        self.log = self.opened()

    def kill(self) -> None:
        """Open again without having closed."""
        self.log.abandon()
        self.log = self.opened()

    def bodies(self, offset: int = 0, **filters: Any) -> list[bytes]:
        return [record.body for record in drained(self.log.reader(offset, **filters))]


def drained(reader: PartitionReader) -> list[StoredRecord]:
    """Everything up to the end."""
    records: list[StoredRecord] = []
    while not reader.at_end:
        records += reader.read()
    reader.close()
    return records


def numbered(numbers: Iterable[int]) -> list[bytes]:
    """The bodies that World.fill appends."""
    return [b"body %d" % number for number in numbers]
