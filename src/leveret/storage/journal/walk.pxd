from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leveret.storage.journal.records cimport BatchHeader

cdef class Walk:
    cdef const uint8_t[::1] data
    cdef str name
    cdef readonly uint64_t offset       # of the next commit batch
    cdef uint64_t end                   # of the range
    cdef uint64_t batch_at              # of the commit batch that is being read
    cdef uint32_t salt
    cdef object open_batch
    cdef object plain                   # keeps a decrypted commit batch alive
    cdef const uint8_t* area            # the bodies of the commit batch
    cdef uint64_t area_size
    cdef const uint8_t* index           # its entries
    cdef uint64_t index_size
    cdef uint64_t position              # of the next entry
    cdef int64_t when_ms
    cdef bint find(self, BatchHeader* header) noexcept
    cdef int next_batch(self) except -1
    cdef int check_area(self, uint64_t offset, uint64_t size) except -1
    cdef object damage(self, uint64_t offset, str what)
    cdef object contradiction(self)
    cdef object unknown(self, uint8_t kind)
