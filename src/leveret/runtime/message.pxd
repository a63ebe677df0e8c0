from libc.stdint cimport uint32_t, uint64_t

from leveret.core.held cimport Held
from leveret.core.message cimport Message as Content
from leveret.core.queue cimport Queue as CoreQueue

cdef class Peeked:
    cdef readonly object source  # type: ManagedQueue  # the RuntimeQueue that it was taken from
    cdef readonly Content content       # as the core has it
    cdef readonly uint64_t seq
    cdef readonly uint32_t deliveries
    cdef readonly int priority
    cdef readonly str state
    cdef uint64_t when_ms               # of a scheduled or leased one: when it appears again
    cdef bytes fetched                  # the body, when it was in the blob store
    cdef object parsed

cdef class ReceivedMessage(Peeked):
    cdef readonly Held held
    cdef readonly uint64_t lease
    cdef readonly uint64_t received_ms

cdef class Message(ReceivedMessage):
    pass

cdef class AsyncMessage(ReceivedMessage):
    pass
