"""What is on its way to the clients: an outlet for each connection, and the list of those that have something in it.

Bytes are collected until the loop has a turn for them: one write to a socket stands for many messages. A thread that is
not the loop's may deliver, too, while it has the lock of the broker; it wakes the loop.
"""

from cpython.pythread cimport PyThread_get_thread_ident

cdef enum:
    # What one connection may have in memory beside the buffer of its socket: enough for the next write, no more.
    OUTPUT_BYTES_MAX = 262_144


cdef class Outbox:
    """The connections that have something to send."""

    def __init__(self, wake) -> None:
        self.waiting = []
        self.wake = wake
        self.adopt()

    def adopt(self) -> None:
        """The calling thread is the one that sends."""
        self.thread = PyThread_get_thread_ident()

    def take(self) -> list:
        """Those that have something to send since the last time."""
        waiting, self.waiting = self.waiting, []
        return waiting


cdef class Outlet(FrameWriter):
    """The frames that go to one client."""

    def __init__(self, Outbox outbox not None, connection) -> None:
        self.outbox = outbox
        self.connection = connection

    def note(self) -> None:
        """Say that something is here to be sent."""
        self.changed()

    cdef int changed(self) except -1:
        if not self.noted:
            self.noted = True
            self.outbox.waiting.append(self.connection)
            if PyThread_get_thread_ident() != self.outbox.thread:
                self.outbox.wake()
        return 0

    def take(self) -> bytes:
        """See FrameWriter."""
        self.noted = False
        return FrameWriter.take(self)

    def close(self) -> None:
        """Forget the connection: nothing more is sent."""
        self.connection = None
        self.paused = True
        self.noted = True

    cdef bint full(self) noexcept:
        """Whether no more messages may be put here for now; remembers that some wanted to."""
        if self.paused or self.buffer.size >= OUTPUT_BYTES_MAX:
            self.starved = True
            return True
        return False
