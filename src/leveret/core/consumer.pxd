from libc.stdint cimport int64_t, uint32_t, uint64_t

from leveret.core.held cimport Held

cdef class Consumer:
    cdef readonly str tag
    cdef readonly str name              # in the journal, which keeps it for ever: not a new one for each connection
    cdef readonly object queue
    cdef readonly uint32_t id           # in the journal
    cdef readonly int64_t priority
    cdef readonly uint32_t prefetch     # 0: no limit
    cdef readonly uint32_t unacked
    cdef readonly uint64_t active_ms    # when it subscribed, was last given a message or last settled one
    cdef readonly bint exclusive, no_ack
    cdef bint timed                     # what it holds comes back after the consumer timeout; else its edge sees to that
    cdef bint opens                     # deliver wants the message itself, not just where it lies
    cdef public bint blocked            # the edge cannot take more now
    cdef bint can_take(self) noexcept
    cpdef bint ready_for(self, Held held) except -1
    cpdef deliver(self, Held held)
    cpdef int pull(self) except -1
    cpdef cancelled(self)
