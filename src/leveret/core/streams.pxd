from libc.stdint cimport uint32_t, uint64_t

from leveret.core.ports cimport Content, Record

cdef class Author:
    cdef public bytes producer          # empty: clients speak for themselves
    cdef public uint64_t sequence

cdef class Recorder:
    cdef readonly uint32_t partition    # of the record that was taken last
    cdef readonly uint64_t offset       # of that record
    cdef readonly bint repeated         # it was not taken: its producer had sent it before
    cdef int record(self, Content* content, uint64_t now_ms) except -1

cdef class StreamCursor:
    cdef readonly uint32_t partition
    cdef readonly uint64_t offset       # of the record that comes next
    cdef bint find(self, Record* found) except -1
    cdef int passed(self) except -1
