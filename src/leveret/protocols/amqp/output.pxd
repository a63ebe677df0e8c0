from libc.stdint cimport uint16_t, uint64_t

from leveret.protocols.amqp.frames cimport FrameWriter

cdef class PendingOutput:
    cdef readonly list waiting      # connections that have something to send
    cdef object wake                # called when there is a first one

cdef class LargeBody:
    cdef uint16_t channel
    cdef bytes body
    cdef uint64_t position          # of the first byte that was not taken

cdef class Outlet(FrameWriter):
    cdef PendingOutput outbox
    cdef object connection
    cdef bint noted
    cdef public bint paused         # the socket takes no more
    cdef public bint starved        # a consumer could have got more
    cdef object parts               # what goes before the buffer: bytes, and large bodies that are framed slice by slice
    cdef uint64_t parts_bytes
    cdef uint64_t larges            # large bodies among them
    cdef FrameWriter slices
    cdef int put_body(self, uint16_t channel, bytes body) except -1
    cdef bytes take_part(self)
    cdef bint overfull(self) noexcept
    cdef int changed(self) except -1
    cdef bint full(self) noexcept
