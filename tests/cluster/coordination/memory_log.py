"""A log of the catalog that all nodes of one process share."""

import asyncio

from leveret.cluster.catalog.log import LogEntry, Snapshot
from leveret.cluster.catalog.read_lease import CatalogReader


class MemoryLog:
    """Entries in a list; it has the methods of CatalogLog."""

    def __init__(self) -> None:
        self._entries: list[LogEntry] = []
        self._version = 0
        self._snapshot: Snapshot | None = None
        self.rows: dict[str, CatalogReader] = {}

    async def append(self, entry: LogEntry) -> bool:
        await asyncio.sleep(0)
        if entry.version != self._version + 1:
            return False
        self._entries.append(entry)
        self._version = entry.version
        return True

    async def barrier(self) -> int:
        return self._version

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        await asyncio.sleep(0)
        return [entry for entry in self._entries if entry.version >= version][:limit]

    async def snapshot(self) -> Snapshot | None:
        return self._snapshot

    async def compact(self, snapshot: Snapshot) -> None:
        if self._snapshot is None or self._snapshot.version < snapshot.version:
            self._snapshot = snapshot
            self._entries = [entry for entry in self._entries if entry.version >= snapshot.version]

    async def renew_row(self, reader: CatalogReader) -> list[CatalogReader]:
        await asyncio.sleep(0)
        self.rows[reader.name] = reader
        return list(self.rows.values())

    async def readers(self) -> list[CatalogReader]:
        await asyncio.sleep(0)
        return list(self.rows.values())

    async def forget(self, reader: CatalogReader) -> None:
        await asyncio.sleep(0)
        if reader.name in self.rows and self.rows[reader.name].renewals == reader.renewals:
            del self.rows[reader.name]
