from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.wire.frames cimport Buffer

cdef class Gathering:
    cdef public uint64_t large_bytes        # bodies of this size are kept outside of the log
    cdef const uint8_t* header_at
    cdef uint32_t header_len
    cdef uint64_t body_len
    cdef Buffer gathered
    cdef bytes whole                        # what a large content is gathered into; `gathered` lies in it
    cdef bint in_whole

    cdef int gather_header(self) except -1
    cdef int gather(self, const uint8_t* data, uint64_t size) except -1
    cdef int grow_whole(self, uint64_t size) except -1
    cdef bytes take_whole(self)
    cdef void forget(self) noexcept
