"""Streams for readers of very much: which offsets there are, and blocks of records as they lie in the log."""

from collections.abc import Mapping
from typing import NamedTuple

from leveret.core.errors import InvalidArgument, NotSupported
from leveret.core.queue import Queue
from leveret.storage.stream.log import PartitionLog
from leveret.storage.stream.pieces import PIECE_BYTES_MAX, piece, reach
from leveret.storage.stream.recorder import StreamRecorder

BLOCKS_BYTES_MAX = PIECE_BYTES_MAX
"""Of the blocks of one answer, or one block if that is more."""


class PartitionOffsets(NamedTuple):
    """One partition: from its oldest record to before the next one; and what was asked for."""

    partition: int
    first: int
    end: int
    at: int | None = None
    """The offset of the first record of a time or later."""
    reach: int | None = None
    """The offset that so many bytes reach from another."""


def logs_of(queue: Queue) -> list[PartitionLog]:
    """The partitions of a stream."""
    recorder = queue.recorder
    if not isinstance(recorder, StreamRecorder):
        raise NotSupported(f"'{queue.name}' is a queue, no stream: it has no offsets; read it by reservations")
    return recorder.logs


def log_of(queue: Queue, partition: int) -> PartitionLog:
    """One partition of a stream."""
    logs = logs_of(queue)
    if not 0 <= partition < len(logs):
        raise InvalidArgument(f"stream '{queue.name}' has partitions 0 to {len(logs) - 1}, not {partition}")
    return logs[partition]


def offsets(
    queue: Queue, timestamp_ms: int | None, after: Mapping[int, int] | None, size: int | None
) -> list[PartitionOffsets]:
    """The offsets of every partition; at a time, and how far so many bytes go after some, if that is asked for."""
    recorder, found = queue.recorder, []
    for number, log in enumerate(logs_of(queue)):
        assert isinstance(recorder, StreamRecorder), "logs_of has looked"
        at = None if timestamp_ms is None else recorder.at(number, timestamp_ms)
        reached = None if size is None or after is None or number not in after else reach(log, after[number], size)
        found.append(PartitionOffsets(number, log.first_offset, log.committed, at, reached))
    return found


def blocks(queue: Queue, partition: int, offset: int, end: int, size: int) -> bytes:
    """The blocks of one partition from an offset on."""
    return piece(log_of(queue, partition), offset, end, size)
