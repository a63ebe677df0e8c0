"""Compaction: the oldest segment goes first, and only once nothing lives in it.

An entry that settles a message lies in the segment of that message or in a newer one. Removing segments in the order of
their age therefore never removes the settling before the settled: in any other order a replay would bring back messages
that were acknowledged.

What still lives in the oldest segment is appended again (the state does it, for messages as for definitions and
de-duplication keys), that must be durable, then `oldest` in META is raised, and only then does the file go. The
segment that is being written never goes, so there is always one that carries the commit batch numbers on.
"""

import dataclasses
import errno
import json
from collections.abc import Callable

from leveret.storage.disk import Disk, replace_file
from leveret.storage.journal.files.meta import Meta, write_meta
from leveret.storage.journal.files.segments import segment_name

Names = Callable[[set[int]], dict[int, str]]
"""Gives the names of queues by their numbers; those that are gone are left out."""
SLACK_BYTES = 1 << 30
"""The log may be this much over twice what lives in it before segments that are mostly alive are copied too."""
LIVE_SHARE_MIN = 0.5
NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS})


def is_worth_copying(segment: int, live: dict[int, int], placed: dict[int, int], sizes: dict[int, int]) -> bool:
    """Whether the live records of the oldest segment should be copied so that it can go."""
    if live.get(segment, 0) < LIVE_SHARE_MIN * placed.get(segment, 0) or live.get(segment, 0) == 0:
        return True
    # An estimate: the records of a segment count as equally large.
    alive = sum(size * live.get(each, 0) / max(1, placed.get(each, 0)) for each, size in sizes.items())
    return sum(sizes.values()) > 2 * alive + SLACK_BYTES


def remove_segment(disk: Disk, segment: int, meta: Meta) -> Meta:
    """Remove the oldest segment, so that it stays removed even if the directory forgets it in a crash."""
    raised = dataclasses.replace(meta, oldest=segment + 1)
    write_meta(disk, raised)
    disk.unlink(segment_name(segment))
    return raised


def archive_bytes(data: bytes, segment: int, directory: str, names: dict[int, str]) -> None:
    """Hand a segment that is no file to the archive in the same way."""
    replace_file(_archive_names(segment, directory, names), segment_name(segment), data)


def _archive_names(segment: int, directory: str, names: dict[int, str]) -> Disk:
    """Write the names of the queues in a segment into the archive; give the archive."""
    archive = Disk(directory)
    known = {str(number): names[number] for number in sorted(names)}
    replace_file(archive, segment_name(segment).removesuffix(".log") + ".names.json", json.dumps(known).encode())
    return archive


def archive_segment(disk: Disk, segment: int, directory: str, names: dict[int, str]) -> None:
    """Hand a segment to the archive, after the names of its queues; both are durable there when this returns."""
    name = segment_name(segment)
    archive = _archive_names(segment, directory, names)
    if name not in archive.names():
        try:
            disk.link(name, directory)
            archive.sync_dir()
        except OSError as error:
            if error.errno not in NO_LINK:
                raise
            replace_file(archive, name, disk.read_all(name))
