from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.core.ports cimport Content
from leveret.storage.journal.records cimport Buffer, RunEntry, TimedEntry

cdef class EventLog:
    cdef Buffer entries
    cdef readonly uint64_t dropped          # since the start
    cdef uint64_t lost                      # of those, what the journal does not know yet
    cdef uint64_t start_seq, start_ms       # the same of when it was opened; 0: it knows
    cdef object clock
    cdef int note(
        self, uint8_t kind, uint8_t how, uint32_t queue, uint64_t seq, uint64_t at_ms, uint32_t value, uint32_t consumer,
        uint16_t deliveries
    ) except -1
    cdef int append(self, const RunEntry* run, const TimedEntry* timed) except -1
    cdef int published(self, Content* content, list queues) except -1
    cdef uint8_t* room(self) except? NULL
