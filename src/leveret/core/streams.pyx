"""The line between the core and streams: where the messages of a queue of type stream go, and how they are read.

A stream has no lanes: its `Recorder` takes a message for good, and each reader moves along it with a `StreamCursor` of its
own. leveret.storage.stream implements both; the core and the edges know only this.
"""

from leveret.core.errors import NotSupported


cdef class Author:
    """Who publishes at this moment, if not a client: a batch, which a crash may make to publish the same rows again."""

    def __cinit__(self) -> None:
        self.producer = b""


cdef class Recorder:
    """Takes the messages of one stream. This base is a stream without records."""

    cdef int record(self, Content* content, uint64_t now_ms) except -1:
        """Append a message, to be committed with whatever else is."""
        raise NotImplementedError

    @property
    def length(self) -> int:
        """Records that can be read."""
        return 0

    @property
    def size_bytes(self) -> int:
        """What they take on the disk."""
        return 0

    @property
    def partitions(self) -> int:
        """How many logs it has."""
        return 0

    def figures(self) -> list[dict[str, int]]:
        """What each partition holds, for operators."""
        return []

    def cursor(
        self, partition: int, start: object, now_ms: int, wanted: Collection[bytes] | None = None,
        bint match_unfiltered=False,
    ) -> StreamCursor:
        """A place to read one partition from; `start` is that of an x-stream-offset argument."""
        raise NotImplementedError


cdef class StreamCursor:
    """A place in one partition, moving forward; what it gives is durable."""

    cdef bint find(self, Record* found) except -1:
        """Find the record at this place, to be copied at once; False when there is none yet, or it must be fetched."""
        return False

    cdef int passed(self) except -1:
        """Go to the next one."""
        return 0

    def missing(self) -> Callable[[], None] | None:
        """What fetches the next records, to be called in another thread, and then `fetched`; None: they are here."""
        return None

    def fetched(self) -> None:
        """What was missing has come."""

    def close(self) -> None:
        """Let go of files."""


class NoStreams:
    """Where a broker keeps its streams; this one has no storage for them."""

    author: Author

    def __init__(self) -> None:
        self.author = Author()

    def recorder_of(self, queue: "Queue") -> Recorder:
        """The recorder of a stream, which may be new."""
        raise NotSupported("this broker keeps no streams: give it a place for them, or use another queue type")

    def drop(self, queue: "Queue") -> None:
        """A stream was deleted: remove it when that is durable."""

    def forget(self, producer: bytes) -> None:
        """A producer will not send anything again."""
