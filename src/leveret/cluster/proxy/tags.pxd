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

cdef struct Delivery:
    uint64_t tag            # that the client has
    PyObject* shard_channel        # where it came from; NULL: settled
    uint64_t inner          # the tag that the shard has given
    PyObject* consumer      # the tag of the consumer
    bint lost               # its shard has taken it back
    Name name               # without a queue: the message is unknown

cdef class Tags:
    cdef Delivery* slots
    cdef Py_ssize_t first, end, count, capacity
    cdef int push(self, uint64_t tag, uint64_t inner, object shard_channel, str consumer, const Name* name) except -1
    cdef Py_ssize_t find(self, uint64_t tag) except -1
    cdef Py_ssize_t place(self, uint64_t tag) noexcept
    cdef void drop(self, Py_ssize_t index) noexcept
