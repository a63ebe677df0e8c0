from libc.stdint cimport uint8_t, uint16_t, uint64_t

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil

cdef enum:
    BUCKETS = 24

cdef class Histogram:
    cdef uint64_t counts[BUCKETS]
    cdef readonly uint64_t sum

cdef inline void note(Histogram histogram, uint64_t value) noexcept:
    """Count a value: a few instructions, since every message comes here."""
    cdef int bucket = 64 - __builtin_clzll(value) if value else 0
    histogram.counts[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
    histogram.sum += value

cdef class PriorityCounts:
    cdef uint64_t* counts
    cdef uint16_t rows
    cdef int grow(self, uint16_t rows) except -1

cdef PriorityCounts note_priority(PriorityCounts known, uint8_t priority, uint8_t highest)
