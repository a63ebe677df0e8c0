from libc.stdint cimport uint64_t

from leveret.core.held cimport Held

cdef class Returned:
    cdef list chunks
    cdef readonly Py_ssize_t length
    cdef int add(self, Held held) except -1
    cdef int remove(self, Held held) except -1
    cdef Held first(self)
    cdef list page(self, uint64_t ms, uint64_t seq, Py_ssize_t count)
    cdef Py_ssize_t chunk_of(self, uint64_t ms, uint64_t seq) noexcept
