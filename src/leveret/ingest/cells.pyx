"""Columns of a piece where they lie: checked once as a whole, then read cell by cell without an object for each.

pieces.py draws the format, and refuses what is found to be wrong here.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint64_t
from libc.string cimport memcpy

cdef enum:
    OFFSET_BYTES = 4
    NUMBER_BYTES = 8

cdef int64_t NOTHING = -<int64_t>0x7FFFFFFFFFFFFFFF - 1


cdef class Texts:
    """A text for each row; only a column whose offsets are `rising` may be read."""

    def __init__(self, bytes row_group not None, Py_ssize_t at, Py_ssize_t size, Py_ssize_t rows, bint gapped) -> None:
        """Take so many bytes of a piece; the caller knows that they have room for the offsets."""
        cdef Py_ssize_t flags_bytes = (rows + 7) // 8 if gapped else 0
        cdef Py_ssize_t head_bytes = flags_bytes + (rows + 1) * OFFSET_BYTES
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(row_group) + at
        assert at >= 0 and rows >= 0 and head_bytes <= size <= len(row_group) - at, "it was looked at before"
        self.row_group = row_group
        self.flags = data if gapped else NULL
        self.offsets = data + flags_bytes
        self.texts = data + head_bytes
        self.rows = rows
        self.size_bytes = size - head_bytes
        self.measure()

    cdef int measure(self) except -1:
        """Look at every offset before any is used."""
        cdef uint32_t last = self.offset(0), each
        cdef Py_ssize_t row
        self.rising = <uint64_t>self.offset(self.rows) - last == <uint64_t>self.size_bytes
        for row in range(1, self.rows + 1):
            each = self.offset(row)
            self.rising = self.rising and last <= each
            self.longest = max(self.longest, each - last)
            last = each
        return 0

    cdef inline uint32_t offset(self, Py_ssize_t row) noexcept:
        cdef uint32_t found
        memcpy(&found, self.offsets + row * OFFSET_BYTES, OFFSET_BYTES)
        return found

    cdef const uint8_t* find(self, Py_ssize_t row, uint32_t* size) noexcept:
        """Where the text of a row lies; NULL when it has none."""
        cdef uint32_t start = self.offset(row)
        size[0] = self.offset(row + 1) - start
        if self.flags != NULL and not self.flags[row >> 3] >> (row & 7) & 1:
            size[0] = 0
            return NULL
        return self.texts + (start - self.offset(0))

    def __getitem__(self, Py_ssize_t row) -> bytes | None:
        cdef uint32_t size
        cdef const uint8_t* text
        if not 0 <= row < self.rows:
            raise IndexError(row)
        text = self.find(row, &size)
        return None if text == NULL else PyBytes_FromStringAndSize(<const char*>text, size)

    def is_utf8(self) -> bool:
        """Whether every text is one of UTF-8, also those of rows that do not count."""
        cdef Py_ssize_t row
        cdef uint32_t at
        try:
            PyUnicode_DecodeUTF8(<const char*>self.texts, self.size_bytes, NULL)
        except UnicodeDecodeError:
            return False
        for row in range(1, self.rows):
            at = self.offset(row) - self.offset(0)
            # All of it is right, so a text is, unless it begins in the middle of a character.
            if at < self.size_bytes and self.texts[at] & 0xC0 == 0x80:
                return False
        return True


cdef class Numbers:
    """A number for each row, or nothing."""

    def __init__(self, bytes row_group not None, Py_ssize_t at, Py_ssize_t rows) -> None:
        cdef int64_t number
        cdef Py_ssize_t row
        cdef bint found = False
        assert at >= 0 and rows >= 0 and rows * NUMBER_BYTES <= len(row_group) - at, "it was looked at before"
        self.row_group = row_group
        self.numbers = <const uint8_t*>PyBytes_AS_STRING(row_group) + at
        self.rows = rows
        for row in range(rows):
            if self.find(row, &number):
                self.least = min(self.least, number) if found else number
                self.most = max(self.most, number) if found else number
                found = True

    cdef bint find(self, Py_ssize_t row, int64_t* number) noexcept:
        """The number of a row; False when it has none."""
        memcpy(number, self.numbers + row * NUMBER_BYTES, NUMBER_BYTES)
        return number[0] != NOTHING

    def __getitem__(self, Py_ssize_t row) -> int | None:
        cdef int64_t number
        if not 0 <= row < self.rows:
            raise IndexError(row)
        return number if self.find(row, &number) else None
