from libc.stdint cimport uint64_t

from leveret.core.message cimport Message
from leveret.core.queue cimport Queue
from leveret.core.restore cimport Restorable

cdef class Publisher(Restorable):
    cdef readonly uint64_t tag
    cdef uint64_t offer(self, Message message, list queues, bytes key) except? 0
    cdef uint64_t put(self, Message message, list queues) except? 0
    cdef int check(self, Queue queue, Message message) except -1
