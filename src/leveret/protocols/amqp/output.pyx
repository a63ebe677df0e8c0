"""What is on its way to the clients: an outlet for each connection, and the list of those that have something in it.

Bytes are collected until the loop has a turn for them: one write to a socket stands for many messages. The holder of the
lock of the broker may deliver, in whatever thread; the first one wakes the loop.

A large body is not copied into the buffer. It is framed in slices, one for each turn of the loop: other connections are
served between them, and a slice is made only when the socket takes it.
"""

from collections import deque

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t

from leveret.protocols.amqp.frames cimport BODY

cdef enum:
    # What one connection may have in memory beside the buffer of its socket: enough for the next write, no more.
    OUTPUT_BYTES_MAX = 262_144
    SLICE_BYTES = 1_048_576         # of a large body, for one turn of the loop
    # A few bytes ask for a large message: a client that does not read what it asked for must not go on asking.
    UNREAD_BYTES_MAX = 1_048_576
    FRAME_OVERHEAD = 8


cdef class PendingOutput:
    """The connections that have something to send."""

    def __init__(self, wake) -> None:
        self.waiting = []
        self.wake = wake

    def take(self) -> list:
        """Those that have something to send since the last time."""
        waiting, self.waiting = self.waiting, []
        return waiting


cdef class LargeBody:
    """A body of which a part is still to be sent."""


cdef class Outlet(FrameWriter):
    """The frames that go to one client."""

    def __init__(self, PendingOutput outbox not None, connection) -> None:
        self.outbox = outbox
        self.connection = connection
        self.parts = deque()
        self.slices = FrameWriter()

    def note(self) -> None:
        """Say that something is here to be sent."""
        self.changed()

    cdef int changed(self) except -1:
        if not self.noted:
            self.noted = True
            self.outbox.waiting.append(self.connection)
            if len(self.outbox.waiting) == 1:
                self.outbox.wake()
        return 0

    def take(self) -> bytes:
        """See FrameWriter; nothing while the socket takes no more. Of a large body a slice, and the next one later."""
        cdef bytes taken
        self.noted = False
        if self.paused:
            return b""
        if not self.parts:
            return FrameWriter.take(self)
        taken = self.take_part()
        self.changed()
        return taken

    def take_all(self) -> bytes:
        """All that is to be sent, in one piece: the last words to a client."""
        cdef list taken = []
        while self.parts:
            taken.append(self.take_part())
        taken.append(FrameWriter.take(self))
        self.noted = False
        return b"".join(taken)

    cdef bytes take_part(self):
        """The next slice of what goes before the buffer."""
        cdef LargeBody large
        cdef uint64_t size, left
        if not isinstance(self.parts[0], LargeBody):
            taken = self.parts.popleft()
            self.parts_bytes -= len(taken)
            return taken
        large = self.parts[0]
        self.slices.frame_max = self.frame_max
        left = PyBytes_GET_SIZE(large.body) - large.position
        while left and self.slices.buffer.size < SLICE_BYTES:
            size = min(left, <uint64_t>(self.frame_max - FRAME_OVERHEAD))
            self.slices.put(BODY, large.channel, <const uint8_t*>PyBytes_AS_STRING(large.body) + large.position, size)
            large.position += size
            self.parts_bytes -= size
            left -= size
        if left == 0:
            self.parts.popleft()
            self.larges -= 1
        return FrameWriter.take(self.slices)

    cdef int put_body(self, uint16_t channel, bytes body) except -1:
        """Write a body in as few frames as can be; a large one waits for its turns."""
        cdef LargeBody large
        cdef uint64_t position = 0, piece, size = PyBytes_GET_SIZE(body)
        if size <= SLICE_BYTES:
            while position < size:
                piece = min(size - position, <uint64_t>(self.frame_max - FRAME_OVERHEAD))
                self.put(BODY, channel, <const uint8_t*>PyBytes_AS_STRING(body) + position, piece)
                position += piece
            return 0
        large = LargeBody()
        large.channel, large.body = channel, body
        before = FrameWriter.take(self)
        self.parts.append(before)
        self.parts.append(large)
        self.parts_bytes += len(before) + size
        self.larges += 1
        return 0

    @property
    def pending_bytes(self) -> int:
        """What was written and not taken."""
        return self.buffer.size + self.parts_bytes

    def close(self) -> None:
        """Forget the connection: nothing more is sent."""
        self.connection = None
        self.paused = True
        self.noted = True
        self.parts.clear()
        self.parts_bytes = self.larges = 0

    @property
    def is_overfull(self) -> bool:
        """Whether the client has to read before it is heard again."""
        return self.overfull()

    cdef bint overfull(self) noexcept:
        """A client is heard while one large body is on its way: it may send one itself before it reads."""
        return self.buffer.size > UNREAD_BYTES_MAX or self.larges > 1

    cdef bint full(self) noexcept:
        """Whether no more messages may be put here for now; remembers that some wanted to."""
        if self.paused or self.buffer.size + self.parts_bytes >= OUTPUT_BYTES_MAX:
            self.starved = True
            return True
        return False
