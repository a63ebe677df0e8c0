from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.protocols.amqp.traffic cimport ChannelTraffic
from leveret.core.consumer cimport Consumer
from leveret.core.held cimport Held
from leveret.core.ports cimport Record
from leveret.core.streams cimport StreamCursor

cdef class Subscriber(Consumer):
    cdef readonly ChannelTraffic channel
    cdef readonly uint64_t timeout_ms       # for settling what it was given; 0: that of its queue
    cdef uint8_t prefix[4 + 256 + 8 + 1]    # of basic.deliver: only the delivery tag and the flag after it change
    cdef uint32_t prefix_len

cdef class StreamSubscriber(Subscriber):
    cdef readonly list cursors  # type: list[StreamCursor]  # of each partition that it reads
    cdef Py_ssize_t turn                    # the one that is read now
    cdef Held ticket                        # stands for all that is not acknowledged
    cdef uint8_t entries[25 + 28]           # that each record gets beside its own headers
    cdef uint32_t entries_len
    cdef Held new_ticket(self)
    cdef int write(self, Record* record, StreamCursor cursor) except -1
    cdef int write_header(self, Record* record) except -1
