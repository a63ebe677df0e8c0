from cpython.ref cimport PyObject
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

cdef enum Mark:                 # in Cell.flags, above the flags of the message
    GONE = 0x80                 # taken out of the middle
    FAR = 0x40                  # ttl counts seconds: more than 49 days
    IN_MEMORY = 0x20            # segment 0, whatever the page counts from
    MARKS = 0xE0

cdef enum:
    CELLS_FIRST = 4             # an almost empty queue costs little
    CELLS_MAX = 4096
    MIXED = 0xFFFFFFFF          # as segment_max: not all records of the page are in one segment

cdef struct Page:
    uint64_t seq
    uint64_t enqueued_ms
    uint64_t body_bytes         # of the messages that are still here
    uint32_t segment
    uint32_t segment_max
    uint32_t capacity
    uint32_t head               # cells before it are taken
    uint32_t tail
    uint32_t live
    Cell* cells                 # NULL: only squeezed
    PyObject* squeezed          # bytes, or NULL

cdef Page* new_page(Entry* first, uint32_t capacity) except NULL
cdef void free_page(Page* page) noexcept
cdef int grow(Page* page) except -1
cdef bint fits(Page* page, Entry* entry) noexcept
cdef void write_cell(Page* page, Cell* cell, Entry* entry) noexcept
cdef void read_cell(Page* page, Cell* cell, Entry* entry) noexcept
cdef uint64_t expiry_of(Page* page, Cell* cell) noexcept
cdef int squeeze(Page* page) except -1
cdef int unsqueeze(Page* page) except -1
cdef int touch(Page* page) except -1
cdef Cell* cell_of(Page* page, uint64_t seq) except? NULL
cdef uint32_t first_after(Page* page, uint64_t seq) except? 0xFFFFFFFF
