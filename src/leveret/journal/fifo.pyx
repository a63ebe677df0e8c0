"""Numbers in the order of their arrival, eight bytes each."""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


cdef class Fifo:
    """Numbers of cached messages, oldest first."""

    def __dealloc__(self):
        free(self.ring)

    cdef int push(self, uint64_t seq) except -1:
        """Add a number at the end."""
        cdef size_t capacity = max(self.capacity * 2, <size_t>64), first
        cdef uint64_t* ring
        if self.length == self.capacity:
            ring = <uint64_t*>malloc(capacity * sizeof(uint64_t))
            if ring == NULL:
                raise MemoryError
            if self.length:
                first = self.capacity - self.head
                memcpy(ring, self.ring + self.head, first * sizeof(uint64_t))
                memcpy(ring + first, self.ring, self.head * sizeof(uint64_t))
            free(self.ring)
            self.ring = ring
            self.head = 0
            self.capacity = capacity
        self.ring[(self.head + self.length) & (self.capacity - 1)] = seq
        self.length += 1
        return 0

    cdef uint64_t pop(self) noexcept:
        """Take the first number away."""
        cdef uint64_t seq = self.ring[self.head]
        self.head = (self.head + 1) & (self.capacity - 1)
        self.length -= 1
        return seq
