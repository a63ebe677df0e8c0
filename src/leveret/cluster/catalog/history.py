"""Which versions of the definitions the copy of a node went through, and who wrote them.

A database that is restored goes back to an older version, and so does one after a failover that lost what was never
acknowledged. What is written from then on gets numbers that were given before: a version is known by its writer, too.
"""

from typing import NamedTuple

VERSIONS_MAX = 10_000  # that are remembered: of older ones the number has to do


class Mark(NamedTuple):
    """A version, and who wrote it."""

    version: int
    writer: str


BEGINNING = Mark(0, "")


class VersionHistory:
    """The versions up to the newest one."""

    def __init__(self, first: Mark = BEGINNING) -> None:
        self.newest = first
        self._writers = {first.version: first.writer}

    def reach(self, mark: Mark) -> None:
        """There is another version."""
        self.newest = mark
        self._writers[mark.version] = mark.writer
        self._writers.pop(mark.version - VERSIONS_MAX, None)

    def has(self, mark: Mark) -> bool:
        """Whether a version was on the way to the newest one, as far as it is known who wrote it."""
        return mark.version <= self.newest.version and self._writers.get(mark.version, mark.writer) == mark.writer
