from libc.stdint cimport uint8_t, uint64_t

from leveret.core.held cimport Held
from leveret.core.message cimport Message
from leveret.core.queue cimport Queue
from leveret.core.restore cimport Restorable

cdef class Publisher(Restorable):
    cdef object graves                  # what has died and is not dead-lettered yet
    cdef bint burying
    cdef readonly dict dying            # Held -> ids of the targets that have it: dead letters that are held
    cdef Py_ssize_t untried             # how many of them this pass has not tried yet
    cdef object alarm                   # when they are tried again
    cdef public uint64_t tag
    cdef uint64_t offer(self, Message message, list queues, bytes key) except? 0
    cdef uint64_t put(self, Message message, list queues) except? 0
    cdef int check_room(self, list queues, uint8_t flags) except -1
    cdef bint refuses(self, Queue queue, Message message) except -1
    cdef bint put_dead(self, Message message, list targets, set reached) except -1
    cdef bint record_dead(self, Message message, Queue target) except -1
    cdef int hold_dead(self, Queue queue, Held held, uint8_t reason) except -1
    cdef int bury_all(self) except -1
