from libc.stdint cimport uint64_t

cdef class Fifo:
    cdef uint64_t* ring
    cdef size_t head
    cdef size_t length
    cdef size_t capacity
    cdef int push(self, uint64_t seq) except -1
    cdef uint64_t pop(self) noexcept
