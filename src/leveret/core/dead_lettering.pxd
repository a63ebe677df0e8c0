from libc.stdint cimport uint8_t, uint64_t

from leveret.core.engine cimport Engine, QueueCallbacks
from leveret.core.held cimport Held, Holder
from leveret.core.message cimport Message
from leveret.core.publish cimport Publisher
from leveret.core.queue cimport Queue

cdef class DeadLetters:
    cdef readonly Engine engine
    cdef readonly Publisher publisher
    cdef object topology
    cdef public object outbox           # gets the dead letters for queues of other brokers, or None
    cdef object pending                 # dead, and not published again yet
    cdef bint is_publishing
    cdef readonly dict held             # Held -> ids of the targets that have it: waiting for the others
    cdef Py_ssize_t untried             # how many of them this pass has not tried yet
    cdef object alarm                   # when they are tried again
    cdef int dead(self, Queue queue, Held held, uint8_t reason) except -1
    cdef int overflowed(self, Queue queue, Message message) except -1
    cdef int publish_pending(self) except -1
    cdef int hold(self, Queue queue, Held held, uint8_t reason) except -1
    cdef bint put(self, Message message, list targets, set reached) except -1
    cdef bint record(self, Message message, Queue target) except -1

cdef class Callbacks(QueueCallbacks):
    cdef DeadLetters dead_letters
    cdef object delete_unused
