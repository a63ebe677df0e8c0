from libc.stdint cimport uint64_t

from leveret.amqp.frames cimport FrameWriter

cdef class Outbox:
    cdef readonly list waiting      # connections that have something to send
    cdef object wake                # called when somebody else than the loop's thread has put one there
    cdef unsigned long thread       # of the loop

cdef class Outlet(FrameWriter):
    cdef Outbox outbox
    cdef object connection
    cdef bint noted
    cdef public bint paused         # the socket takes no more
    cdef public bint starved        # a consumer could have got more
    cdef int changed(self) except -1
    cdef bint full(self) noexcept
