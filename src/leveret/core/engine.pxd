from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.held cimport Held, Holder
from leveret.core.message cimport Message
from leveret.core.ports cimport Journal
from leveret.core.timers cimport Timers
from leveret.core.tracing cimport Tracer

cdef class QueueCallbacks:
    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1
    cdef int overflowed(self, Holder queue, Message message) except -1
    cdef int push(self, Holder queue) except -1
    cdef int expire(self, Holder queue) except -1
    cdef int unused(self, Holder queue) except -1

cdef class Engine:
    cdef readonly Journal journal
    cdef readonly Timers timers
    cdef public QueueCallbacks callbacks
    cdef public object name_consumer  # type: Callable[[str, int], None]  # journals the number of a consumer's name
    cdef public uint64_t tag            # the broker's part of message ids
    cdef readonly uint64_t now_ms       # the latest time seen: it never goes back
    cdef readonly uint64_t last_seq
    cdef readonly uint64_t last_lease
    cdef readonly list dirty  # type: list[Queue]  # watched queues that have something to take
    cdef readonly dict consumer_ids  # type: dict[str, int]
    cdef readonly dict blobs  # type: dict[bytes, int]  # pointer -> queue places that name it
    cdef readonly list released  # type: list[bytes]  # pointers that no message names any more
    cdef public Tracer tracer  # type: Tracer | None  # gets traced messages, or None
    cdef int budget                     # how much more this tick may do
    cpdef int refused(self, uint8_t how, uint64_t size, str exchange=*, uint32_t queue=*) except -1
    cdef uint64_t advance(self, uint64_t now_ms) noexcept
    cdef int keep_blob(self, Message message, Py_ssize_t places) except -1
    cdef int drop_blob(self, Message message) except -1
