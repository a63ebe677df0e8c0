"""Files of an archive: below a directory, or in an object store (S3, GCS, Azure) that a URI names.

Names are relative to the archive. A file is written whole, and durable when it is written; `create` fails where there
is one of that name, which is what decides between two jobs that commit at the same time.
"""

import io
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import IO, Any, NamedTuple, Protocol

from leveret.core.errors import BlobStoreFailed, InvalidArgument
from leveret.spark.directories import is_stored
from leveret.storage.disk import TEMPORARY, Disk, discard, replace_file, write_beside

RETRIES, RETRY_TIME = 5, timedelta(seconds=60)
READ_AHEAD_BYTES = 1 << 20


class FileInfo(NamedTuple):
    """A file that is listed."""

    name: str
    modified_ms: int


class ArchiveFiles(Protocol):
    """What an archive needs of the place where its files are; a missing file is a FileNotFoundError."""

    root: str
    """The absolute path of the directory, or the URI."""

    def open(self, name: str) -> IO[bytes]:
        """A file for reading, any part of it."""

    def create(self, name: str, data: bytes) -> None:
        """Write a file that is not there yet; FileExistsError."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; readers see the old one or the new one."""

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""

    def listed(self, folder: str) -> Iterator[FileInfo]:
        """All files in and below a folder."""


@lru_cache(maxsize=16)
def archive_files(root: str) -> ArchiveFiles:
    """The files below what an option named (directories.py)."""
    return StoredFiles(root) if is_stored(root) else LocalFiles(root)


class LocalFiles:
    """Files below a directory."""

    def __init__(self, root: str) -> None:
        self.root = root

    def open(self, name: str) -> IO[bytes]:
        return open(os.path.join(self.root, name), "rb")

    def create(self, name: str, data: bytes) -> None:
        disk, file = self._place(name)
        beside = f"{file}.{uuid.uuid4().hex}"
        write_beside(disk, beside, (data,))
        try:
            os.link(disk.path / (beside + TEMPORARY), disk.path / file)
        finally:
            discard(disk, beside + TEMPORARY)
        disk.sync_dir()

    def replace(self, name: str, data: bytes) -> None:
        disk, file = self._place(name)
        replace_file(disk, file, data)

    def delete(self, name: str) -> None:
        path = os.path.join(self.root, name)
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):  # others are in it
            os.rmdir(os.path.dirname(path))

    def listed(self, folder: str) -> Iterator[FileInfo]:
        for parent, _, files in os.walk(os.path.join(self.root, folder)):
            for file in files:
                path = os.path.join(parent, file)
                yield FileInfo(os.path.relpath(path, self.root), os.stat(path).st_mtime_ns // 1_000_000)

    def _place(self, name: str) -> tuple[Disk, str]:
        """The directory of a file, durable with those that it is in."""
        folder, file = os.path.split(os.path.join(self.root, name))
        new = []
        while not os.path.isdir(folder):
            new.append(folder)
            folder = os.path.dirname(folder)
        for directory in reversed(new):
            Disk(directory)
            Disk(os.path.dirname(directory)).sync_dir()
        return Disk(os.path.dirname(os.path.join(self.root, name))), file


class StoredFiles:
    """Objects below a URI, by obstore, which finds credentials where the tools of the store do."""

    def __init__(self, root: str) -> None:
        self.root = root

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredFiles, (self.root,)

    @cached_property
    def _store(self) -> Any:
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        try:
            return from_url(self.root, retry_config={"max_retries": RETRIES, "retry_timeout": RETRY_TIME})
        except (BaseError, ValueError) as error:
            raise InvalidArgument(f"{self.root} names no object store: {_line(error)}") from None

    def open(self, name: str) -> IO[bytes]:
        with self._telling("read", name):
            return io.BufferedReader(ObjectReader(self._store, name), READ_AHEAD_BYTES)

    def create(self, name: str, data: bytes) -> None:
        self._put(name, data, "create")

    def replace(self, name: str, data: bytes) -> None:
        self._put(name, data, "overwrite")

    def delete(self, name: str) -> None:
        with suppress(FileNotFoundError), self._telling("delete", name):
            self._store.delete(name)

    def listed(self, folder: str) -> Iterator[FileInfo]:
        with self._telling("list", folder):
            for batch in self._store.list(folder or None):
                for meta in batch:
                    yield FileInfo(str(meta["path"]), int(meta["last_modified"].timestamp() * 1000))

    def _put(self, name: str, data: bytes, mode: str) -> None:
        from obstore.exceptions import AlreadyExistsError

        with self._telling("write", name):
            try:
                # In one request: only so the store decides which of two writers was first.
                self._store.put(name, data, mode=mode, use_multipart=False if mode == "create" else None)
            except AlreadyExistsError:
                raise FileExistsError(f"{self.root}/{name}") from None

    @contextmanager
    def _telling(self, what: str, name: str) -> Iterator[None]:
        """Name the object in an error of the store."""
        from obstore.exceptions import BaseError

        try:
            yield
        except BaseError as error:
            if isinstance(error, FileNotFoundError):
                raise
            raise BlobStoreFailed(f"the object store did not {what} {self.root}/{name}: {_line(error)}") from error


class ObjectReader(io.RawIOBase):
    """An object that is read by ranges."""

    def __init__(self, store: Any, name: str) -> None:
        self._store, self._name, self._at = store, name, 0
        self._size = int(store.head(name)["size"])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def readinto(self, buffer: Any) -> int:
        end = min(self._at + len(buffer), self._size)
        if end <= self._at:
            return 0
        found = memoryview(self._store.get_range(self._name, start=self._at, end=end))
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _line(error: Exception) -> str:
    """What an error of obstore says, without its debug output."""
    return str(error).partition("\n")[0]
