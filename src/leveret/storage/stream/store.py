"""All streams of a broker: opened with it, committed together with its journal, retained, removed.

    under the lock of the broker       recorder_of, drop, forget, take, committed, expire
    by the thread that commits         commit
    by the housekeeper                 retain, remove

What goes to the disk has a lock of its own, so that a segment is not removed while the next one is begun.

Where the partitions of streams lie: a directory each, by the number of the stream and that of the partition.

    streams/17/0/       the first partition of stream 17

A directory is made before the definition of its stream is durable, and removed after its deletion is: what a crash
leaves in between has no definition, and goes when the broker is opened. A broker on PostgreSQL has tables instead
(postgres.py).
"""

import itertools
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Generic, TypeVar

from leveret.core.broker import Broker
from leveret.core.consumer_groups import ConsumerGroups
from leveret.core.errors import DamagedJournal, JournalFailed, TooMany
from leveret.core.queue import Queue
from leveret.core.queue_types import STREAM
from leveret.core.streams import Author, NoStreams
from leveret.storage.disk import Bytes, Disk
from leveret.storage.options import StreamOptions
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.recorder import StreamRecorder
from leveret.storage.stream.segments import PartitionShare, Segment

File = TypeVar("File")


class ObjectDisk(Disk, Generic[File]):
    """A directory whose files are objects of this process; to sync them is not its business."""

    def __init__(self, files: dict[str, File]) -> None:
        self._files = files
        self._open: dict[int, File | bytearray] = {}
        self._numbers = itertools.count()

    def _opened(self, content: File | bytearray) -> int:
        number = next(self._numbers)
        self._open[number] = content
        return number

    def _file(self, name: str) -> File:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name]

    def datasync(self, fd: int) -> None:
        """See ObjectDisk."""

    sync = datasync

    def sync_dir(self) -> None:
        """See ObjectDisk."""


class MemoryDisk(ObjectDisk[bytearray]):
    """A directory in memory, for a broker that keeps nothing: its files are gone with the process."""

    def open_append(self, name: str) -> int:
        return self._opened(self._files.setdefault(name, bytearray()))

    def open_read(self, name: str) -> int:
        """See Disk; an open file can be read after its name is gone."""
        return self._opened(self._file(name))

    def write(self, fd: int, buffers: Sequence[Bytes]) -> int:
        content = self._open[fd]
        before = len(content)
        for buffer in buffers:
            content += buffer
        return len(content) - before

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        return bytes(memoryview(self._open[fd])[offset : offset + size])

    def is_cached(self, fd: int, size: int, offset: int) -> bool:
        return True

    def read_all(self, name: str) -> bytes:
        return bytes(self._file(name))

    def size(self, name: str) -> int:
        return len(self._file(name))

    def truncate(self, fd: int, size: int) -> None:
        del self._open[fd][size:]

    def close(self, fd: int) -> None:
        del self._open[fd]

    def rename(self, old: str, new: str) -> None:
        self._files[new] = self._files.pop(old)

    def unlink(self, name: str) -> None:
        self._file(name)
        del self._files[name]

    def names(self) -> list[str]:
        return sorted(self._files)


class StreamDirectories:
    """Directories for streams; these are in memory, where nothing lasts and nothing waits."""

    @property
    def settled(self) -> bool:
        """Whether nothing waits for the next commit batch of the journal; what is in files does not."""
        return True

    def partition(self, stream: int, number: int) -> Disk:
        """The directory of one partition, made if need be."""
        return MemoryDisk({})

    def numbers(self) -> list[int]:
        """The streams that have directories."""
        return []

    def sync(self, stream: int) -> None:
        """Make the directories of a stream durable."""

    def remove(self, stream: int) -> None:
        """Remove a stream with everything in it."""

    def tidy(self) -> None:
        """Do what had to wait."""

    def close(self) -> None:
        """Let go of everything."""


class FileStreamDirectories(StreamDirectories):
    """Directories on a real file system."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def partition(self, stream: int, number: int) -> Disk:
        return Disk(self._path / str(stream) / str(number))

    def numbers(self) -> list[int]:
        if not self._path.exists():
            return []
        return sorted(int(entry.name) for entry in os.scandir(self._path) if entry.name.isdigit())

    def sync(self, stream: int) -> None:
        """See StreamDirectories: from the stream up to the directory that this one is in."""
        for directory in (self._path / str(stream), self._path, self._path.parent):
            Disk(directory).sync_dir()

    def remove(self, stream: int) -> None:
        shutil.rmtree(self._path / str(stream), ignore_errors=True)


LOGS_MAX = 10_000
"""Partitions of all streams: each has an open file."""

Fetch = Callable[[bytes], bytes]
"""The body that a pointer into the blob store names."""


def no_blobs(pointer: bytes) -> bytes:
    """The bodies of a broker in memory are where they are."""
    raise AssertionError("only a broker on files puts bodies away")


class StreamStore(NoStreams):
    """The streams of one broker."""

    def __init__(
        self,
        core: Broker,
        directories: StreamDirectories,
        options: StreamOptions,
        fetch: Fetch = no_blobs,
    ) -> None:
        """Open every stream that a core has, and remove what no stream owns."""
        self._core = core
        self._directories = directories
        self._options = options
        self._fetch = fetch
        self._disk = threading.Lock()
        self._noted: list[StreamRecorder] = []
        self._taken: list[StreamRecorder] = []
        self.dirty = False
        """Whether something was appended since the last commit began, or waits for a commit batch."""
        self._unsynced: list[int] = []
        self._gone: list[StreamRecorder] = []
        self._recorders: dict[int, StreamRecorder] = {}
        self.partitions = 0
        self.author = Author()
        core.streams = self
        streams = [queue for queue in core.queues.values() if queue.policy.queue_type == STREAM]
        try:
            for queue in streams:
                queue.recorder = self.recorder_of(queue)
        except BaseException:
            self.abandon()
            raise
        self._unsynced.clear()
        self.dirty = False
        self.groups = ConsumerGroups(core)
        self.lost_records = sum(log.recovered.lost_records for recorder in self for log in recorder.logs)
        if not options.salvage:
            for number in set(directories.numbers()) - self._recorders.keys():
                directories.remove(number)

    def __iter__(self) -> Iterator[StreamRecorder]:
        return iter(list(self._recorders.values()))

    def __len__(self) -> int:
        return len(self._recorders)

    # What the core asks

    def recorder_of(self, queue: Queue) -> StreamRecorder:
        count = queue.policy.partitions
        if self.partitions + count > LOGS_MAX:
            raise TooMany(f"there are {self.partitions} partitions of streams, the limit is {LOGS_MAX}: delete some")
        options = replace(self._options, segment_bytes=self._segment_bytes(queue))
        logs: list[PartitionLog] = []
        try:
            for number in range(count):
                disk = self._directories.partition(queue.id, number)
                logs.append(PartitionLog(disk, options, PartitionShare(number, count), on_failure=_nobody))
        except BaseException as error:
            for log in logs:
                log.abandon()
            if isinstance(error, DamagedJournal):
                raise DamagedJournal(f"stream '{queue.name}', partition {len(logs)}: {error}") from error
            raise
        recorder = StreamRecorder(queue, logs, self._note, self._fetch, self.author)
        self._recorders[queue.id] = recorder
        self._unsynced.append(queue.id)
        self.dirty = True
        self.partitions += count
        return recorder

    def _segment_bytes(self, queue: Queue) -> int:
        return max(queue.policy.segment_bytes or self._options.segment_bytes, self._options.segment_bytes_min)

    def drop(self, queue: Queue) -> None:
        recorder = self._recorders.pop(queue.id)
        recorder.closed = True
        self.partitions -= recorder.partitions
        self._gone.append(recorder)
        self.groups.delete_stream(queue.vhost, queue.name)

    def forget(self, producer: bytes) -> None:
        for recorder in self:
            for log in recorder.logs:
                log.forget(producer)

    # Committing

    def _note(self, recorder: StreamRecorder) -> None:
        self._noted.append(recorder)
        self.dirty = True

    @property
    def behind(self) -> bool:
        """Whether so much waits to be written that publishers should wait."""
        return any(recorder.behind for recorder in (*self._noted, *self._taken))

    def take(self) -> None:
        """Choose what the next commit is about; what an interrupted one was about is still in it."""
        self.dirty = False
        noted = self._noted[:]
        self._noted.clear()
        for recorder in noted:
            recorder.dirty = False
            if recorder not in self._taken:
                self._taken.append(recorder)

    def commit(self, now_ms: int) -> int:
        """Make durable what was taken; give about how many bytes that was. DiskFull: it can be tried again."""
        written = 0
        with self._disk:
            for number in self._unsynced[:]:
                self._directories.sync(number)
                self._unsynced.remove(number)
            for recorder in [each for each in self._taken if not each.closed]:
                for log in [each for each in recorder.logs if each.next_offset > each.committed]:
                    written += log.unwritten_bytes
                    with _as_disk_errors():
                        log.write(now_ms)
        return written

    def committed(self) -> None:
        """What was taken is durable: those who wait for it can read on."""
        if not self._directories.settled:
            self.dirty = True  # some of it was written after its commit batch had been sent: the next one has it
            return
        taken, self._taken = self._taken, []
        for recorder in taken:
            if not recorder.closed:
                for log in recorder.logs:
                    log.reveal()
                recorder.queue.grown()

    def commit_now(self, now_ms: int) -> None:
        """All at once, for a broker in memory."""
        self.take()
        self.commit(now_ms)
        self.committed()

    # Housekeeping

    def take_gone(self) -> list[StreamRecorder]:
        """Those that were deleted; their files may go once that is durable."""
        gone, self._gone = self._gone, []
        return gone

    def remove(self, gone: list[StreamRecorder]) -> None:
        """Remove the files of streams whose deletion is durable."""
        with self._disk:
            for recorder in gone:
                for log in recorder.logs:
                    log.abandon()
                self._directories.remove(recorder.queue.id)

    def retain(self, now_ms: int) -> None:
        """Remove what is too old or too much, sync what an interval owes, and free what was kept for tails."""
        for recorder in self:
            policy = recorder.queue.policy
            with self._disk, _as_disk_errors():
                for log in () if recorder.closed else recorder.logs:
                    log.resize(self._segment_bytes(recorder.queue))
                    log.sync_if_due(now_ms)
                    log.retain(now_ms, policy.max_age_ms, policy.max_length_bytes)
                    log.forget_shared()
        with self._disk:
            self._directories.tidy()
        if not self._directories.settled:
            self.dirty = True

    def foreign_segments(self) -> tuple[list[tuple[StreamRecorder, PartitionLog, Segment]], set[bytes]]:
        """Segments of files that the first key does not encrypt; and the master keys of those that are in a database.

        Nothing is written any more to the former. The latter go with the retention of their streams.
        """
        found: list[tuple[StreamRecorder, PartitionLog, Segment]] = []
        kept: set[bytes] = set()
        for recorder in [each for each in self if not each.closed]:
            for log in recorder.logs:
                if log.disk.tears:
                    with self._disk, _as_disk_errors():
                        log.leave_foreign()
                    found += [(recorder, log, segment) for segment, _ in log.foreign_segments()]
                else:
                    kept |= {key.key_id for _, key in log.foreign_segments()}
        return found, kept

    def reseal(self, recorder: StreamRecorder, log: PartitionLog, segment: Segment) -> None:
        """Encrypt a segment by the first key; one that was removed meanwhile is not missed."""
        if not recorder.closed:
            with suppress(FileNotFoundError), _as_disk_errors():
                log.reseal(segment, self._disk)

    def close(self, now_ms: int) -> None:
        """Commit the rest and let go of the files; those that were abandoned are left alone."""
        with self._disk:
            for recorder in [each for each in self if not each.closed]:
                recorder.closed = True
                for log in recorder.logs:
                    log.close(now_ms)
            self.dirty = bool(self._noted) or not self._directories.settled
            self._directories.close()

    def abandon(self) -> None:
        with self._disk:
            for recorder in self:
                recorder.closed = True
                for log in recorder.logs:
                    log.abandon()
            self._directories.close()


@contextmanager
def _as_disk_errors() -> Iterator[None]:
    """Tell a failure as the error of the disk that it came from: the journal fails with it."""
    try:
        yield
    except JournalFailed as failed:
        cause = failed.__cause__
        raise cause if isinstance(cause, OSError) else OSError(str(failed)) from failed


def _nobody(failure: JournalFailed) -> None:
    """The committing caller gets the failure, and reports it."""
