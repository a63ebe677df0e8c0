from libc.stdint cimport uint8_t, uint64_t

from leveret.core.engine cimport Engine
from leveret.core.message cimport Message
from leveret.core.ports cimport Content
from leveret.core.queue cimport Queue

cdef class Publisher:
    cdef readonly Engine engine
    cdef uint64_t offer(self, Message message, list queues, bytes key) except? 0
    cdef uint64_t put(self, Message message, list queues) except? 0
    cdef uint64_t place(self, Message message, list queues) except 0
    cdef uint64_t enter(self, Content* content, Message message, list queues) except 0
    cdef uint64_t enter_traced(self, Content* content, Message message, list queues) except 0
    cdef list record(self, Content* content, list queues)
    cdef int check_room(self, list queues, uint8_t flags) except -1
    cdef bint refuses(self, Queue queue, Message message) except -1

cdef bint too_large(Queue queue, Message message) except -1
