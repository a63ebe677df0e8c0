"""What queues ask of their broker, passed on to the part that does it."""

from libc.stdint cimport uint8_t

from leveret.core.dispatch import pump
from leveret.core.errors import JournalFailed
from leveret.core.expiry cimport expire
from leveret.core.held cimport Held, Holder
from leveret.core.message cimport Message
from leveret.core.queue cimport Queue


cdef class Callbacks(QueueCallbacks):
    """See QueueCallbacks; `delete_unused` is called with a queue that expired or whose last consumer left."""

    def __init__(self, DeadLetters dead_letters not None, delete_unused) -> None:
        self.dead_letters = dead_letters
        self.delete_unused = delete_unused

    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1:
        return self.dead_letters.dead(<Queue>queue, held, reason)

    cdef int overflowed(self, Holder queue, Message message) except -1:
        return self.dead_letters.overflowed(<Queue>queue, message)

    cdef int push(self, Holder queue) except -1:
        """See QueueCallbacks; a message that cannot be delivered is no error of the publisher."""
        try:
            pump(queue)
        except JournalFailed:
            raise
        except Exception:
            (<Queue>queue).signal()     # it is tried again, and then the caller of take_dirty gets the error
        return 0

    cdef int expire(self, Holder queue) except -1:
        return expire(<Queue>queue)

    cdef int unused(self, Holder queue) except -1:
        self.delete_unused(queue)
        return 0
