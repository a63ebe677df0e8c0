from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.held cimport Held
from leveret.core.message cimport Message
from leveret.core.ports cimport Content

cdef class Tracer:
    cdef public uint32_t rate_max       # messages that are traced in a second; 0: no limit
    cdef readonly uint64_t limited      # those that were not traced because of that
    cdef readonly uint64_t failures     # of the listeners that were to be told
    cdef uint64_t gap                   # publishes without a context until one of them gets one; 0: never
    cdef uint64_t second
    cdef uint32_t count                 # traced in this second
    cdef bint chooses(self, Content* content, uint64_t now_ms) noexcept
    cdef bint has_turn(self) except -1
    cdef bint has_room(self, uint64_t now_ms) noexcept
    cdef object mark(self, Message message)
    cdef int give_context(self, Message message) except -1
    cdef void tell_published(self, Message message, list queues, object start_ns) noexcept
    cdef void tell_delivered(self, object queue, Held held, object journal) noexcept
    cdef void tell_ended(self, object queue, Held held, object journal, uint8_t how, bint settled) noexcept
