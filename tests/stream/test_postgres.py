"""Streams beside a log in PostgreSQL: what was confirmed is there for whoever opens it next, and only he writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import leveret
from leveret.core.errors import JournalFailed
from leveret.journal.disk import Disk, replace_file, write_all
from leveret.journal.postgres_files import PostgresFiles
from leveret.journal.table_files import Place
from leveret.stream.table_disk import CHUNK_BYTES, TableDisk

RECORDS = [bytes([number % 251]) * (number * 37 % 20_000) for number in range(200)]


@pytest.fixture
def files(store_url: str) -> Iterator[PostgresFiles]:
    with leveret.open(store_url) as broker:
        made = PostgresFiles(store_url, 0, broker.guard.store.epoch)  # type: ignore[union-attr]
        made.make()
        yield made
        made.close()


def read(stream: leveret.Stream) -> list[bytes]:
    with stream.reader(0, "first") as reader:
        found: list[bytes] = []
        while records := reader.read(1_000):
            found += [record.data for record in records]
        return found


def test_records_are_there_for_the_next_one_and_go_with_their_segments(store_url: str) -> None:
    sent = list(RECORDS)
    with leveret.open(store_url) as broker:
        stream = broker.stream("log", segment_bytes=1 << 20, max_bytes=1 << 20)
        for start in range(0, len(RECORDS), 20):
            stream.send_many(RECORDS[start : start + 20])
        assert read(stream) == sent
    for _ in range(2):
        with leveret.open(store_url) as broker:
            stream = broker.stream("log")
            assert read(stream) == sent[stream.stats().partitions[0].first_offset :]
            stream.send(b"more")
            assert read(stream)[-1] == b"more"
            sent.append(b"more")
    with leveret.open(store_url) as broker:
        broker.stream("log").delete()
    with leveret.open(store_url) as broker:
        assert broker.streams() == []


@contextmanager
def stale(store_url: str) -> Iterator[leveret.Stream]:
    """A stream of a process that has lost its store."""
    first = leveret.open(store_url, on_failure="raise")
    stream = first.stream("log")
    stream.send(b"mine")
    with leveret.open(store_url) as second:
        yield stream
        assert read(second.stream("log")) == [b"mine"]
    with pytest.raises(JournalFailed):
        first.flush()
    first.close()


def test_who_has_lost_the_store_appends_nothing(store_url: str) -> None:
    with stale(store_url) as stream, pytest.raises(JournalFailed):
        stream.send(b"not mine")


def same(one: Disk, other: Disk) -> None:
    """Two directories have the same in them."""
    assert one.names() == other.names()
    for name in one.names():
        assert one.read_all(name) == other.read_all(name)


def test_files_are_those_of_a_disk(files: PostgresFiles, tmp_path: Path) -> None:
    disks = [TableDisk(files, Place(1, 0)), Disk(tmp_path)]
    big = bytes(range(256)) * (5 * CHUNK_BYTES // 512)
    for disk in disks:
        fd = disk.open_append("a")
        for start in range(0, len(big), 100_000):
            write_all(disk, fd, big[start : start + 100_000])
            disk.datasync(fd)
        reading = disk.open_read("a")
        for offset, size in [(0, 10), (CHUNK_BYTES - 5, 10), (len(big) - 3, 10), (1, 2 * CHUNK_BYTES), (len(big), 1)]:
            assert disk.pread(reading, size, offset) == big[offset : offset + size]
        disk.truncate(fd, CHUNK_BYTES + 7)
        write_all(disk, fd, b"behind it")
        disk.sync(fd)
        disk.close(fd)
        replace_file(disk, "index", b"one")
        replace_file(disk, "index", b"two", b"three")
        disk.rename("a", "b")
        fd = disk.open_append("c")
        write_all(disk, fd, b"gone")
        disk.sync(fd)
        disk.close(fd)
        disk.unlink("c")
        assert disk.pread(reading, 9, CHUNK_BYTES + 7) == b"behind it"
        disk.unlink("b")
        assert disk.pread(reading, 3, 0) == big[:3], "who reads a file reads it to its end"
        disk.close(reading)
        with pytest.raises(FileNotFoundError):
            disk.open_read("b")
    same(*disks)
    same(TableDisk(files, Place(1, 0)), disks[1])
    assert files.sizes(Place(1, 0)) == {"index": 8}
