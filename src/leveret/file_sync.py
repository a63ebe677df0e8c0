"""Durable files on Linux, and on macOS, which has neither fdatasync nor posix_fallocate.

There fsync only hands the data to the drive, which may keep it in its cache; F_FULLFSYNC waits until the medium has it.
"""

import errno
import fcntl
import os

UNSUPPORTED = frozenset({errno.ENOTSUP, errno.EINVAL, errno.ENOTTY})
"""Answers of network file systems that do not know F_FULLFSYNC; any other error is one of the disk."""
ZEROS = bytes(1 << 20)


def sync(fd: int) -> None:
    """Make the content and the attributes of a file durable, or the names in a directory."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        try:
            fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                raise
        else:
            return
    os.fsync(fd)


datasync = getattr(os, "fdatasync", sync)
"""Make the content of a file durable."""


def allocate(fd: int, size: int) -> None:
    """Have room on the disk for a file of this size: extended with zeros, never cut."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(fd, 0, size)
        return
    while (at := os.fstat(fd).st_size) < size:
        os.pwrite(fd, ZEROS[: size - at], at)
