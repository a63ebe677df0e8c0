from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.core.ports cimport Entry

cdef packed struct Cell:        # 26 bytes: one waiting message
    uint32_t seq                # all of these count from the page's first
    uint32_t enqueued_ms
    uint32_t offset
    uint32_t size_priority      # size << 8 | priority
    uint32_t ttl                # ms after it was enqueued (seconds with FAR), 0: never
    uint16_t segment
    uint16_t overhead
    uint8_t flags
    uint8_t deliveries

cdef struct Page:
    uint64_t seq
    uint64_t enqueued_ms
    uint32_t segment
    uint32_t capacity
    uint32_t head               # cells before it are taken
    uint32_t tail
    Cell* cells

cdef class Lane:
    cdef Page** pages
    cdef uint32_t first, end, slots
    cdef readonly uint64_t length       # messages waiting
    cdef readonly uint64_t latest_expiry_ms     # of all that were pushed since it was empty
    cdef int push(self, Entry* entry) except -1
    cdef bint peek(self, Entry* entry) noexcept
    cdef int pop(self) except -1
    cdef bint find(self, uint64_t seq, Entry* entry) noexcept
    cdef bint remove(self, uint64_t seq, Entry* entry) noexcept
    cdef bint replace(self, Entry* entry) noexcept
    cdef Cell* locate(self, uint64_t seq, Page** found) noexcept
    cdef Page* grown(self, Entry* entry) except NULL
    cdef int open_page(self, Entry* entry, uint32_t capacity) except -1
    cdef int reserve_slot(self) except -1
    cdef void skip_gone(self) noexcept
    cdef void drop_first(self) noexcept
    cdef bint after(self, uint64_t seq, Entry* entry) noexcept
    cdef int count_segments(self, dict counts) except -1
    cdef int dump(self, bytearray out) except -1
    cdef Py_ssize_t load(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef void tally(self, Page* page, Cell* cell) noexcept
    cdef bint touches(self, uint32_t segment) noexcept
