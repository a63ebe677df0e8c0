from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.pages cimport Cell, Page
from leveret.core.ports cimport Entry

cdef class Lane:
    cdef Page** pages
    cdef uint32_t first, end, slots
    cdef Page* looked                           # the cold page that was read last
    cdef readonly uint64_t length               # messages waiting
    cdef readonly uint64_t bytes                # and their bodies
    cdef readonly uint64_t latest_expiry_ms     # of all that were pushed since it was empty
    cdef int push(self, Entry* entry) except -1
    cdef bint peek(self, Entry* entry) noexcept
    cdef int pop(self) except -1
    cdef bint find(self, uint64_t seq, Entry* entry) except -1
    cdef bint remove(self, uint64_t seq, Entry* entry) except -1
    cdef bint replace(self, Entry* entry) except -1
    cdef bint after(self, uint64_t seq, Entry* entry) except -1
    cdef bint touches(self, uint32_t segment) noexcept
    cdef int count_segments(self, dict counts) except -1
    cdef int dump(self, bytearray out) except -1
    cdef int drop_volatile(self) except -1
    cdef Py_ssize_t load(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef Page* page_before(self, uint64_t seq, uint32_t* index) noexcept
    cdef Cell* locate(self, uint64_t seq, Page** found) except? NULL
    cdef int look(self, Page* page) except -1
    cdef Page* roomy(self, Entry* entry) except NULL
    cdef int open_page(self, Entry* entry, uint32_t capacity) except -1
    cdef int reserve_slot(self) except -1
    cdef int leave(self, Page* page, Cell* cell) except -1
    cdef int skip_gone(self) except -1
    cdef int drop_first(self) except -1
    cdef int forget_transient(self, Page* page) except -1
    cdef int load_page(self, Page* kept, bytes squeezed) except -1
