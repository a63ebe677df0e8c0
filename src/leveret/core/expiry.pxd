from libc.stdint cimport uint8_t, uint64_t

from leveret.core.held cimport Held
from leveret.core.ports cimport Entry
from leveret.core.queue cimport Queue

cdef uint8_t reason_of(Queue queue, Held held) except? 255
cdef int watch(Queue queue, Entry* entry, uint64_t group) except -1
cdef int note(Queue queue, Entry* entry, uint64_t group) except -1
cdef int remember(Queue queue, uint64_t expiry_ms, uint64_t seq, uint8_t priority, uint64_t group) except -1
cdef int set_timer(Queue queue, uint64_t when_ms) except -1
cdef int timer_fired(Queue queue) except -1
