from libc.stdint cimport uint32_t, uint64_t

cdef struct Facts:
    uint32_t queue
    uint64_t seq
    uint64_t lease

cdef class Receipts:
    cdef bytes key

    cdef str make(self, uint32_t queue, uint64_t seq, uint64_t lease)
    cdef str fault(self, object receipt, Facts* facts)
