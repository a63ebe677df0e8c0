from libc.stdint cimport uint8_t, uint64_t

from leveret.core.engine cimport Engine
from leveret.core.held cimport Holder
from leveret.core.ports cimport Entry
from leveret.core.ready cimport Ready
from leveret.core.timers cimport Timer

cdef class Expiries(Timer):
    cdef Holder queue
    cdef Engine engine
    cdef list heap                      # (expiry, seq, priority, group) of messages whose expiries are out of order
    cdef int wake(self, uint64_t when_ms) except -1
    cdef int stop(self) except -1
    cdef int watch(self, Entry* entry, uint64_t group, Ready ready, dict held) except -1
    cdef int note(self, Entry* entry, uint64_t group, Ready ready, dict held) except -1
    cdef int remember(self, uint64_t expiry_ms, uint64_t seq, uint8_t priority, uint64_t group) except -1

cdef Expiries new_expiries(Holder queue, Engine engine, uint64_t tie)
cdef uint64_t head_expiry(Ready ready) except? 0
