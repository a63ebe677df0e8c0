"""The log of the catalog: every change of definitions of a cluster, in the one order in which all nodes make them.

    version   writer               changes
    1         a, 1f0c...           [virtual host "shop"]
    2         b, 77d2...           [queue "orders" in shard 5, binding to it]

A writer says which version it has seen; if there is a newer one nothing is appended. An entry whose outcome is
not known is known again by its writer. A snapshot takes the place of all entries before its version.
"""

import json
from typing import NamedTuple, Protocol

from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.catalog.read_lease import CatalogReaders
from leveret.core.errors import TooMany

ENTRY_BYTES_MAX = 64 << 20  # all nodes hold one in memory, and so does the database
SNAPSHOT_BYTES_MAX = 512 << 20  # PostgreSQL holds no value of a GiB, and needs room around one while it takes it


class LogEntry(NamedTuple):
    """One version."""

    version: int
    writer: str
    changes: list[DefinitionChange]


class Snapshot(NamedTuple):
    """All definitions at a version, and who wrote that one."""

    version: int
    writer: str
    changes: list[DefinitionChange]


class CatalogLog(CatalogReaders, Protocol):
    """Where entries are kept, and who reads them. Whatever raises Unreachable may have been done, or not."""

    async def append(self, entry: LogEntry) -> bool:
        """Append the entry if its version is the next one; it is durable then."""

    async def barrier(self) -> int:
        """The version now, with all that led to it durable: later reads do not see what could still be lost."""

    async def read(self, version: int, limit: int) -> list[LogEntry]:
        """Entries from a version on, that one included, if they are still there."""

    async def snapshot(self) -> Snapshot | None:
        """The newest snapshot."""

    async def compact(self, snapshot: Snapshot) -> None:
        """Keep a snapshot in place of the entries before it, unless there is a newer one; may raise TooMany."""


def packed(changes: list[DefinitionChange], bytes_max: int) -> bytes:
    """Changes as a log keeps them, if they are not too many."""
    data = json.dumps([[what, payload.decode()] for what, payload in changes], separators=(",", ":")).encode()
    if len(data) > bytes_max:
        raise TooMany(f"{len(changes)} definitions change at once, {len(data)} bytes: do it in smaller steps")
    return data


def unpacked(data: bytes) -> list[DefinitionChange]:
    """The reverse."""
    return [DefinitionChange(what, payload.encode()) for what, payload in json.loads(data)]
