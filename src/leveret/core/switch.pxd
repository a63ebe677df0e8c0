cdef class Switch:
    cdef public bint on
