from libc.stdint cimport uint8_t, uint32_t

from leveret.protocols.amqp.subscriber cimport Subscriber
from leveret.core.held cimport Held
from leveret.core.ports cimport Record
from leveret.core.streams cimport StreamCursor

cdef class StreamSubscriber(Subscriber):
    cdef readonly list cursors              # leveret.core.streams.StreamCursor of each partition that it reads
    cdef Py_ssize_t turn                    # the one that is read now
    cdef Held ticket                        # stands for all that is not acknowledged
    cdef uint8_t entries[25 + 28]           # that each record gets beside its own headers
    cdef uint32_t entries_len
    cdef Held new_ticket(self)
    cdef int write(self, Record* record, StreamCursor cursor) except -1
    cdef int write_header(self, Record* record) except -1
