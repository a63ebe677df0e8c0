"""The content of files as a disk and a page cache see it, and what a power cut leaves of it.

    durable ---- pending writes and truncations, in order ----> cached (what the process reads)

A sync applies the pending changes to the durable content. A power cut applies some of them: each 512-byte sector of
each write is kept, lost or torn on its own, and so is each truncation. Nothing that was never written appears, but
for the zeros of holes. A sector is written as the cache has it, with what earlier writes put there: pages are as
small as sectors here, which gives a power cut more to choose from than the 4 KiB of most systems do.
"""

from collections.abc import Iterator
from random import Random

SECTOR_BYTES = 512
KEEP_CHANCES = (0.0, 1.0, 0.5, 0.1, 0.9)

Write = tuple[int, bytes]
"""Where, and what; an offset of -1 - n without bytes stands for "truncate to n"."""


class Inode:
    """The content of a file, whatever its names."""

    __slots__ = ("cached", "durable", "pending")

    def __init__(self, content: bytes = b"") -> None:
        self.durable = content
        self.cached = content
        self.pending: list[Write] = []

    def write(self, offset: int, data: bytes) -> None:
        """Write to the cache and remember the sectors that are not durable."""
        self.cached = applied(self.cached, offset, data)
        start = offset - offset % SECTOR_BYTES
        end = offset + len(data)
        self.pending.append((start, self.cached[start : end + -end % SECTOR_BYTES]))

    def truncate(self, size: int) -> None:
        """Cut the cached content, or extend it with zeros."""
        self.cached = applied(self.cached, *truncation(size))
        self.pending.append(truncation(size))

    def sync(self) -> None:
        """Make every pending change durable."""
        for offset, data in self.pending:
            self.durable = applied(self.durable, offset, data)
        self.pending.clear()

    def copy(self) -> "Inode":
        """The same file with the same page cache."""
        twin = Inode(self.durable)
        twin.cached = self.cached
        twin.pending = self.pending.copy()
        return twin


def truncation(size: int) -> Write:
    """The change that cuts or extends a file."""
    return (-1 - size, b"")


def applied(content: bytes, offset: int, data: bytes) -> bytes:
    """The content after one change; a hole reads as zeros."""
    if offset < 0:
        size = -1 - offset
        return content[:size].ljust(size, b"\0")
    if offset == len(content):
        return content + data
    return content[:offset].ljust(offset, b"\0") + data + content[offset + len(data) :]


def sectors(offset: int, data: bytes) -> Iterator[Write]:
    """A write as the writes of its sectors."""
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR_BYTES - (offset + start) % SECTOR_BYTES)
        yield offset + start, data[start:end]
        start = end


class Loss:
    """What one power cut takes away: everything pending, nothing, or each piece by chance."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.keep = rng.choice(KEEP_CHANCES)

    def kept(self) -> bool:
        """Whether the next piece reached the disk."""
        return self.rng.random() < self.keep

    def content(self, inode: Inode) -> bytes:
        """What a file holds afterwards."""
        content = inode.durable
        for offset, data in inode.pending:
            content = applied(content, offset, data) if self.keep == 1.0 else self.written(content, offset, data)
        return content

    def written(self, content: bytes, offset: int, data: bytes) -> bytes:
        """The content after one change that may be lost or torn."""
        if offset < 0:
            return applied(content, offset, data) if self.kept() else content
        for start, sector in sectors(offset, data):
            if self.kept():
                content = applied(content, start, sector)
            elif self.rng.random() < 0.2:
                content = applied(content, start, sector[: self.rng.randrange(len(sector))])
        end = offset + len(data)
        if len(content) < end and self.rng.random() < 0.1:
            # The new size may reach the disk before the data does.
            content = content.ljust(end, b"\0")
        return content
