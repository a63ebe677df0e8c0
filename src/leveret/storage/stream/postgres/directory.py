"""Streams in the tables of a shard: their partitions, and what is left of those that are gone."""

from leveret.storage.disk import Disk
from leveret.storage.journal.postgres.bounded_reads import Questions, asked
from leveret.storage.journal.postgres.stream_table import StoredSegment, StreamTable
from leveret.storage.journal.postgres.table import Unknown
from leveret.storage.stream.postgres.changes import Changes
from leveret.storage.stream.postgres.disk import TableDisk
from leveret.storage.stream.postgres.pages import Pages, TableFile


class TableStreamDirectories:
    """The streams of a shard that this process owns; see StreamDirectories."""

    def __init__(self, table: StreamTable, questions: Questions) -> None:
        """Look at what there is: no other process changes it from now on."""
        self._table = table
        self._pages = Pages(table, questions)
        self.changes = Changes(self._pages.stored)
        """What the journal is to store with its commit batches."""
        self._dropping: list[TableFile] = []
        self._found: dict[int, list[StoredSegment]] = {}
        for segment in asked(table.segments):
            self._found.setdefault(segment.key.stream, []).append(segment)
        table.rest()
        self._disks: dict[int, list[TableDisk]] = {}

    @property
    def settled(self) -> bool:
        return self.changes.settled

    def partition(self, stream: int, number: int) -> Disk:
        found = [TableFile(*segment) for segment in self._found.get(stream, ()) if segment.key.partition == number]
        disk = TableDisk((stream, number), found, self.changes, self._pages, self._table, self._dropping.append)
        self._disks.setdefault(stream, []).append(disk)
        return disk

    def numbers(self) -> list[int]:
        return sorted(self._found)

    def sync(self, stream: int) -> None:
        """See StreamDirectories: a stream has tables when it has records."""

    def remove(self, stream: int) -> None:
        """See StreamDirectories; what cannot be removed now goes when the store is opened next."""
        found = self._found.pop(stream, [])
        disks = self._disks.pop(stream, [])
        try:
            forgotten = self._table.forget(stream)
        except Unknown:
            return
        if forgotten:
            files = [file for disk in disks for file in disk.files] if disks else [TableFile(*each) for each in found]
            self._dropping += files

    def tidy(self) -> None:
        """See StreamDirectories: drop tables that are in no stream and that are not read any more."""
        for file in self._dropping[:]:
            if file.opened or self.changes.has(file):
                continue
            try:
                self._table.drop(file.key)
            except Unknown:
                break  # it is in use, or the database does not answer: the next time
            self._dropping.remove(file)
        self._table.rest()

    def close(self) -> None:
        self._table.close()
