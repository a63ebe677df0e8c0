from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

from leveret.protocols.amqp.unacked cimport RECORD_BYTES

cdef struct Name:           # which message a delivery is
    PyObject* queue         # a short string as bytes; NULL: unknown
    uint8_t record[RECORD_BYTES]

cdef struct Entry:
    uint64_t number
    uint8_t how
    Name name

cdef class MessageNames:
    cdef Entry* entries
    cdef Py_ssize_t first, end, capacity
    cdef int push(self, uint64_t number, uint8_t how, const Name* name) except -1
    cdef const Name* of(self, uint64_t number) noexcept
    cdef void drop(self) noexcept

cdef bytes packed(const Name* name)
