"""Changes of definitions in the order that all nodes apply them in: each is appended where nobody else has appended."""

from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One change, as it is written down."""

    version: int
    payload: bytes


class ChangeLog(Protocol):
    """The log of changes, which all nodes share."""

    async def append(self, entry: Entry) -> bool:
        """Write down an entry whose version is one more than the last; False when there is one of that version."""

    async def read(self, after: int) -> list[Entry]:
        """The entries after a version, in order; not always all of them."""


class MemoryLog:
    """A log for nodes of one process."""

    def __init__(self) -> None:
        """Start empty."""
        self._entries: list[Entry] = []

    async def append(self, entry: Entry) -> bool:
        """See ChangeLog."""
        if entry.version != len(self._entries) + 1:
            return False
        self._entries.append(entry)
        return True

    async def read(self, after: int) -> list[Entry]:
        """See ChangeLog."""
        return self._entries[after:]
