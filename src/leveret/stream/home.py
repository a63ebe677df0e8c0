"""Where the partitions of streams lie: a directory each, by the number of the stream and that of the partition.

    streams/17/0/       the first partition of stream 17

Beside a log in PostgreSQL they are rows of a table.

A directory is made before the definition of its stream is durable, and removed after its deletion is: what a crash
leaves in between has no definition, and goes when the broker is opened.
"""

import os
import shutil
from pathlib import Path
from typing import Protocol

from leveret.journal.disk import Disk
from leveret.journal.table_files import Files, Place
from leveret.stream.memory import MemoryDisk
from leveret.stream.table_disk import TableDisk


class Home(Protocol):
    """Directories for streams."""

    def partition(self, stream: int, number: int) -> Disk:
        """The directory of one partition, made if need be."""

    def numbers(self) -> list[int]:
        """The streams that have directories."""

    def sync(self, stream: int) -> None:
        """Make the directories of a stream durable."""

    def remove(self, stream: int) -> None:
        """Remove a stream with everything in it."""

    def close(self) -> None:
        """Let go of what is open beside files."""


class MemoryHome:
    """Directories in memory."""

    def partition(self, stream: int, number: int) -> Disk:
        """See Home."""
        return MemoryDisk()

    def numbers(self) -> list[int]:
        """See Home."""
        return []

    def sync(self, stream: int) -> None:
        """See Home."""

    def remove(self, stream: int) -> None:
        """See Home."""

    def close(self) -> None:
        """See Home."""


class TableHome:
    """Directories in a database, of a shard that this process owns."""

    def __init__(self, files: Files) -> None:
        """Use a table, which is made with the first stream."""
        self._files = files

    def partition(self, stream: int, number: int) -> Disk:
        """See Home."""
        self._files.make()
        return TableDisk(self._files, Place(stream, number))

    def numbers(self) -> list[int]:
        """See Home."""
        return self._files.streams()

    def sync(self, stream: int) -> None:
        """What is in the table is durable."""

    def remove(self, stream: int) -> None:
        """See Home."""
        self._files.remove_stream(stream)

    def close(self) -> None:
        """See Home."""
        self._files.close()


class FileHome:
    """Directories on a real file system."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Use a directory, which is made with the first stream."""
        self._path = Path(path)

    def partition(self, stream: int, number: int) -> Disk:
        """See Home."""
        return Disk(self._path / str(stream) / str(number))

    def numbers(self) -> list[int]:
        """See Home."""
        if not self._path.exists():
            return []
        return sorted(int(entry.name) for entry in os.scandir(self._path) if entry.name.isdigit())

    def sync(self, stream: int) -> None:
        """See Home: from the stream up to the directory that this one is in."""
        for directory in (self._path / str(stream), self._path, self._path.parent):
            Disk(directory).sync_dir()

    def remove(self, stream: int) -> None:
        """See Home."""
        shutil.rmtree(self._path / str(stream), ignore_errors=True)

    def close(self) -> None:
        """See Home."""
