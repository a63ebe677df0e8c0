from libc.stdint cimport uint32_t, uint64_t

cdef struct Publish:
    uint32_t missing        # how many shards have not spoken
    bint refused            # by one of them
    bint told               # the client knows

cdef class Sent:
    cdef uint64_t* numbers
    cdef Py_ssize_t first, end, capacity
    cdef uint64_t gone      # how many there were before the first
    cdef int push(self, uint64_t number) except -1
    cdef uint64_t pop(self) noexcept

cdef class Confirms:
    cdef Publish* slots
    cdef Py_ssize_t first, end, capacity
    cdef uint64_t first_number
    cdef Py_ssize_t count, unspoken
    cdef uint64_t lowest, highest       # of those that were decided just now
    cdef int note(self, Sent sent, uint64_t number) except -1
    cdef int add(self, bint told) except -1
    cdef void speak(self, uint64_t number, bint safe) noexcept
    cdef list verdicts(self)
