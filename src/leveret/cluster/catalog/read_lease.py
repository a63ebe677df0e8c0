"""For how long a node answers by its copy of the catalog, and for how long a change has to wait for it.

    a node       beat: the log has a row of this node ---> read: the copy has all that is in the log ---> answers
                 again and again; LEASE after the begin of the last beat it answers nothing until it has done so anew

    a decider    append ---> whose rows are there? ---> each has the version, or said nothing for EXPIRY

A node that has a row when the rows are read after an append is waited for. A node without one beats later, and so reads
the change before it answers anything. A row that was not renewed during EXPIRY is of a node that has stood still for so
long, or is gone: it is forgotten, and a node that comes back beats again before it answers. Every beat is a look at the
rows, too, so that one that is gone for longer is not waited for at all.

Both measure time from before something to after something, each by a clock that cannot be set. EXPIRY is longer than
LEASE by what one of them may be faster than the other.
"""

from collections.abc import Callable
from typing import NamedTuple

from leveret.clock import US_PER_S, ticks_us

LEASE_S = 4.0
RENEWALS = 4  # during a lease: single ones may be lost, or late
EXPIRY = 1.25  # leases


class CatalogReader(NamedTuple):
    """A process of a node, which answers by a replica."""

    name: str
    version: int
    """What it had when it last said so."""
    renewals: int
    """How often it has said something; never twice the same number under one name."""


class ReadLease:
    """How long ago the copy of this node is known to have been the newest."""

    def __init__(self, lease_s: float, now_us: Callable[[], int] = ticks_us) -> None:
        self.lease_s = lease_s
        self.now_us = now_us
        self._until_us = 0

    @property
    def expiry_s(self) -> float:
        """Seconds after which a node that missed a change is guaranteed to have stopped serving reads."""
        return self.lease_s * EXPIRY

    @property
    def is_valid(self) -> bool:
        """Whether the copy may be answered by."""
        return self.now_us() < self._until_us

    def renew(self, asked_us: int) -> None:
        """A beat that began at this time was followed by a look at the whole log."""
        self._until_us = max(self._until_us, asked_us + int(self.lease_s * US_PER_S))


class ReaderWatch:
    """Since when the rows of others are as they are."""

    def __init__(self, read_lease: ReadLease) -> None:
        self._read_lease = read_lease
        self._since_us: dict[tuple[str, int], int] = {}

    def look(self, rows: list[CatalogReader]) -> None:
        """These are all rows; they were so a moment ago."""
        now_us = self._read_lease.now_us()
        seen = [(row.name, row.renewals) for row in rows]
        self._since_us = {row: self._since_us.get(row, now_us) for row in seen}

    def is_silent(self, reader: CatalogReader) -> bool:
        """Whether a row has not changed for so long that its node no longer serves reads by it."""
        since_us = self._since_us.get((reader.name, reader.renewals))
        return since_us is not None and self._read_lease.now_us() - since_us >= self._read_lease.expiry_s * US_PER_S
