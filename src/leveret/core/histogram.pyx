"""Counts of values by powers of two: how long messages waited, how long a sync took, how much was in a commit.

    bucket   0 | 1 |  2  |  3  | ... |        22         |  23
    values   0 | 1 | 2-3 | 4-7 | ... | 2097152-4194303   | all that are larger
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memset

BOUNDS: tuple[int, ...] = tuple(1 << bucket for bucket in range(BUCKETS - 1))
"""What the values of each bucket are below; those of the last one are below nothing."""


cdef class Histogram:
    """How many values there were of each size, and their sum."""

    def observe(self, uint64_t value) -> None:
        note(self, value)

    def add(self, Histogram other not None) -> None:
        cdef int bucket
        for bucket in range(BUCKETS):
            self.counts[bucket] += other.counts[bucket]
        self.sum += other.sum

    @property
    def buckets(self) -> tuple[int, ...]:
        return tuple([self.counts[bucket] for bucket in range(BUCKETS)])


cdef class PriorityCounts:
    """How many messages there were of each priority: 8 bytes for each priority that a queue has."""

    def __dealloc__(self):
        free(self.counts)

    cdef int grow(self, uint16_t rows) except -1:
        cdef uint64_t* grown = <uint64_t*>realloc(self.counts, rows * sizeof(uint64_t))
        if grown == NULL:
            raise MemoryError
        memset(grown + self.rows, 0, (rows - self.rows) * sizeof(uint64_t))
        self.counts, self.rows = grown, rows
        return 0


cdef PriorityCounts note_priority(PriorityCounts known, uint8_t priority, uint8_t highest):
    """Count a message of a queue whose highest priority is given; the counts, made with the first one."""
    if known is None:
        known = PriorityCounts.__new__(PriorityCounts)
    if priority >= known.rows:
        known.grow(<uint16_t>highest + 1)
    known.counts[priority] += 1
    return known


def quantile(buckets: Sequence[int], double share) -> float | None:
    """The value that this share of all values is below, as far as buckets tell; None when there are none.

    Values are taken to be spread evenly in their bucket; those of the last one to be at its lower end.
    """
    cdef double seen = 0, wanted = share * sum(buckets)
    if wanted <= 0:
        return None
    for bucket, count in enumerate(buckets):
        if count and seen + count >= wanted:
            low = 0 if bucket == 0 else 1 << (bucket - 1)
            high = low if bucket == BUCKETS - 1 else 1 << bucket
            return low + (high - low) * (wanted - seen) / count
        seen += count
    return float(1 << (BUCKETS - 2))
