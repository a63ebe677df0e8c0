"""Files in a database: what the streams of a shard need of it, and nothing that says which one it is."""

from typing import NamedTuple, Protocol

from leveret.journal.disk import Bytes


class Place(NamedTuple):
    """A partition of a stream."""

    stream: int
    part: int


class Files(Protocol):
    """The files of the streams of one shard; OSError: nothing more can be written."""

    def make(self) -> None:
        """Have a table for them."""

    def sizes(self, place: Place) -> dict[str, int]:
        """The names of a partition, and how long each file is."""

    def read(self, place: Place, name: str, start: int, end: int) -> bytes:
        """A part of a file."""

    def append(self, place: Place, name: str, start: int, data: Bytes) -> None:
        """Make the next bytes of a file durable; the same ones again take their place."""

    def cut(self, place: Place, name: str, size: int) -> None:
        """Let a file end earlier."""

    def rename(self, place: Place, name: str, new: str) -> None:
        """Give a file another name, which may be taken."""

    def remove(self, place: Place, name: str) -> None:
        """Remove a file."""

    def streams(self) -> list[int]:
        """The streams that have files."""

    def remove_stream(self, stream: int) -> None:
        """Remove everything of a stream."""

    def close(self) -> None:
        """Let go of it."""
