from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef class Texts:
    cdef bytes row_group                # whose bytes the others point to
    cdef const uint8_t* flags       # NULL: every row has a text
    cdef const uint8_t* offsets
    cdef const uint8_t* texts
    cdef Py_ssize_t rows
    cdef readonly Py_ssize_t size_bytes
    cdef readonly bint rising       # the offsets are those of texts one behind the other, from the first to the last byte
    cdef readonly uint32_t longest
    cdef int measure(self) except -1
    cdef uint32_t offset(self, Py_ssize_t row) noexcept
    cdef const uint8_t* find(self, Py_ssize_t row, uint32_t* size) noexcept

cdef class Numbers:
    cdef bytes row_group
    cdef const uint8_t* numbers
    cdef Py_ssize_t rows
    cdef readonly int64_t least     # of those that are there; 0 without any
    cdef readonly int64_t most
    cdef bint find(self, Py_ssize_t row, int64_t* number) noexcept
