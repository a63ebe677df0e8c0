from libc.stdint cimport uint64_t

cdef class Timer:
    cdef readonly uint64_t when_ms
    cdef uint64_t tie           # decides between equal times
    cdef Py_ssize_t slot        # 1 + its index in the heap that holds it, 0: in none
    cdef int fire(self, uint64_t now_ms) except -1

cdef class Timers:
    cdef list items
    cdef int add(self, Timer timer) except -1
    cdef int remove(self, Timer timer) except -1
    cdef Timer first(self)
    cdef void rise(self, Py_ssize_t index, Timer timer)
    cdef void sink(self, Py_ssize_t index, Timer timer)

cdef class Alarm(Timer):
    cdef Timers timers
    cdef object action
