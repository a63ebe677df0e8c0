from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.engine cimport Engine
from leveret.core.held cimport Held
from leveret.core.ports cimport Entry, Place
from leveret.core.queue cimport Queue

cdef class Placement:
    cdef Engine engine
    cdef dict groups                    # while replaying: (queue, seq) -> group
    cdef int restore_held(self, Queue queue, Held held, uint64_t due_ms) except -1
    cdef int enter_again(self, Queue queue, Held held) except -1
    cdef Held pick(self, Queue queue, uint64_t seq)
    cdef bint look_up(self, Queue queue, uint64_t seq, Entry* entry) except -1
    cdef int put_back(self, Queue queue, Entry* entry, uint64_t ready_ms, uint64_t group) except -1
    cdef int redelivered(self, Queue queue, uint64_t seq, uint32_t deliveries) except -1
    cdef bint rewrite(self, Queue queue, Entry* entry) except -1
    cdef int settle_down(
        self, Queue queue, Held held, uint64_t seq, uint8_t priority, uint64_t group, Place* place
    ) except -1
