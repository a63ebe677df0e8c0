"""The good blocks of a segment, wherever they lie: for those who look behind a bad one."""

from collections.abc import Iterator

from leveret.storage.disk import Disk
from leveret.storage.segments import occurrences
from leveret.storage.stream.blocks import HEAD_BYTES, MAGIC, BlockHead, block_bytes, read_head

PIECE_BYTES = 1 << 20


class Blocks:
    """The blocks of a file that is open for reading, by their positions."""

    def __init__(self, disk: Disk, fd: int, size: int, salt: int) -> None:
        """Read so much of a file; blocks with another salt are of another segment."""
        self._disk = disk
        self._fd = fd
        self._size = size
        self._salt = salt

    def at(self, position: int) -> tuple[bytes, BlockHead] | None:
        """A good block and its header; None when there is none at a position."""
        claimed = block_bytes(self._disk.pread(self._fd, HEAD_BYTES, position), 0)
        if not 0 < claimed <= self._size - position:
            return None
        data = self._disk.pread(self._fd, claimed, position)
        head = read_head(data, 0, self._salt)
        return None if head is None else (data, head)

    def following(self, position: int, first: int) -> Iterator[tuple[int, bytes, BlockHead]]:
        """The good blocks from a position on that go on where the one before ended, beginning with this offset."""
        while position < self._size and (found := self.at(position)) is not None and found[1].first == first:
            yield position, *found
            position, first = position + len(found[0]), first + found[1].count

    def after(self, position: int) -> Iterator[tuple[int, bytes, BlockHead]]:
        """Every good block at or after a position, with its own, found by how blocks begin."""
        for at in beginnings(self._disk, self._fd, position, self._size):
            found = self.at(at)
            if found is not None:
                yield at, *found


def beginnings(disk: Disk, fd: int, position: int, size: int) -> Iterator[int]:
    """Every position at or after this one where a block may begin."""
    while position < size:
        piece = disk.pread(fd, PIECE_BYTES, position)
        for at in occurrences(piece, MAGIC):
            yield position + at
        # The magic may lie across the ends of two pieces.
        position += max(1, len(piece) - len(MAGIC) + 1)
