from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.held cimport Held, Holder
from leveret.core.message cimport Message
from leveret.core.ports cimport Content, Journal, State
from leveret.core.timers cimport Timers
from leveret.core.tracing cimport Tracer

cdef class Engine(State):
    cdef readonly Journal journal
    cdef readonly Timers timers
    cdef readonly uint64_t now_ms       # the latest time seen: it never goes back
    cdef readonly uint64_t last_seq
    cdef readonly uint64_t last_lease
    cdef readonly list dirty            # watched queues that have something to take
    cdef readonly dict consumer_ids
    cdef readonly dict blobs            # pointer -> queue places that name it
    cdef readonly list released         # pointers that nobody names any more
    cdef public Tracer tracer           # who is told of traced messages, or None
    cdef int budget                     # how much more this tick may do
    cdef uint64_t advance(self, uint64_t now_ms) noexcept
    cdef uint64_t place(self, Message message, list queues) except 0
    cdef uint64_t enter(self, Content* content, Message message, list queues) except 0
    cdef uint64_t enter_traced(self, Content* content, Message message, list queues) except 0
    cdef list record(self, Content* content, list queues)
    cdef int keep_blob(self, Message message, Py_ssize_t places) except -1
    cdef int drop_blob(self, Message message) except -1
    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1
    cdef int push(self, Holder queue) except -1
    cdef int queue_expired(self, Holder queue) except -1
