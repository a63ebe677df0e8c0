from libc.stdint cimport uint8_t, uint64_t

from leveret.core.queue cimport Queue

cdef int expire(Queue queue) except -1
cdef int sweep(Queue queue) except -1
cdef int restore_expiry(Queue queue, uint64_t expiry_ms, uint64_t seq, uint8_t priority, uint64_t group) except -1
