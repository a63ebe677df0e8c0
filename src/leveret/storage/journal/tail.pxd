from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.ports cimport Place
from leveret.storage.journal.records cimport Buffer, CommitBatch

cdef class WrittenTail:
    cdef list frames                # oldest first; those before `first` are gone
    cdef Py_ssize_t first
    cdef Py_ssize_t hit             # where the last record was found: the next one is mostly near
    cdef readonly uint64_t bytes
    cdef uint64_t bytes_max
    cdef Buffer keep(self, CommitBatch batch)
    cdef Buffer drop(self)
    cdef const uint8_t* record(self, Place* place) noexcept
    cdef bint holds(self, Py_ssize_t index, Place* place) noexcept
    cdef int forget(self, uint32_t segment) except -1
