from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from leveret.core.held cimport Held

cdef enum:
    RECORD_BYTES = 37       # drawn in unacked.pyx

cdef struct Slot:
    uint64_t tag
    PyObject* held          # NULL: settled
    uint64_t lease          # the delivery that the tag stands for: the message may be on its next one

cdef class Unacked:
    cdef Slot* slots
    cdef Py_ssize_t first, end
    cdef readonly Py_ssize_t count, capacity
    cdef int push(self, uint64_t tag, Held held) except -1
    cdef Py_ssize_t find(self, uint64_t tag) noexcept
    cdef Held identify(self, Py_ssize_t index, uint8_t* record)
    cdef Held pop_at(self, Py_ssize_t index, uint64_t* lease)
