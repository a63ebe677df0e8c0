from libc.stdint cimport uint64_t

cdef str id_of(uint64_t tag, uint64_t seq)
