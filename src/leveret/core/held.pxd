from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.message cimport Message
from leveret.core.ports cimport Entry
from leveret.core.timers cimport Timer

cdef enum HeldState:
    SCHEDULED = 1       # delayed by its sender or its queue
    BACKING_OFF = 2     # delayed after a failed delivery; keeps its place, and its group waits for it
    GIVEN_BACK = 3      # ready again, ahead of what came later
    LEASED = 4
    DONE = 5
    READING = 6         # stands for whatever a reader of a stream was given and has not acknowledged

cdef enum:
    # A dead letter that waits for its targets is BACKING_OFF until this time (in the year 9892) plus its reason: so
    # journal, checkpoint and compaction know it without a record of its own.
    HELD_DEAD_MS = 250_000_000_000_000

cdef class Holder:
    cdef bint dirty                     # listed in Engine.dirty
    cdef int due(self, Held held, uint64_t now_ms) except -1

cdef class Held(Timer):
    cdef readonly Holder queue  # type: Queue
    cdef Entry entry
    cdef readonly uint64_t ready_ms     # with the number: its place in the queue
    cdef readonly uint64_t group
    cdef readonly uint64_t lease        # number of this delivery, 0 when not leased
    cdef readonly uint64_t delivered_ms
    cdef readonly uint64_t first_delivered_ms   # since the start of the process; 0 for never
    cdef readonly object consumer       # who holds the lease, or None
    cdef readonly uint8_t state
    cdef Message content                # while leased

cdef Held new_held(Holder queue, Entry* entry, uint64_t ready_ms, uint64_t group)
