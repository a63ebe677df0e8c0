from libc.stdint cimport uint32_t, uint64_t, uint8_t

from leveret.protocols.amqp.traffic cimport ChannelTraffic
from leveret.core.consumer cimport Consumer

cdef class Subscriber(Consumer):
    cdef readonly ChannelTraffic channel
    cdef readonly uint64_t timeout_ms       # for settling what it was given; 0: that of its queue
    cdef uint8_t prefix[4 + 256 + 8 + 1]    # of basic.deliver: only the delivery tag and the flag after it change
    cdef uint32_t prefix_len
