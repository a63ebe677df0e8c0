from libc.stdint cimport uint32_t, uint64_t

from leveret.wire.frames cimport Frame, FrameReader, Outlet
from leveret.protocols.amqp.traffic cimport ChannelTraffic

cdef class FrameSession:
    cdef readonly FrameReader reader
    cdef readonly Outlet outlet
    cdef readonly dict channels  # type: dict[int, Any]  # number -> Channel
    cdef public bint started            # the connection is open: channels have their say
    cdef public bint waiting            # for a login, for the disk, ...: what comes is kept and not looked at
    cdef public bint alarmed            # publishes are not looked at
    cdef public bint finished           # nothing more is heard
    cdef readonly bint unreadable       # where the next frame begins is not known any more
    cdef ChannelTraffic current                # its content may lie in the buffer of the reader
    cdef readonly dict routes  # type: dict[bytes, ChannelRoute]  # exchange and routing key as they come
    cdef uint64_t stamp                 # of the topology and the permissions that they were found by
    cdef uint64_t gathered              # bytes of messages that are not whole yet
    cdef readonly dict aside  # type: dict[int, bytearray]  # channels that wait: the frames that came since
    cdef readonly uint64_t aside_bytes  # in all of them
    cdef bytearray returned             # frames that were set aside and are to be looked at next
    cdef bint has_returned
    cdef list noted                     # channels with publishes to confirm
    cdef int look_around(self) except -1
    cdef int handle(self, Frame* frame) except -1
    cdef int take_up(self) except -1
    cdef int method(self, ChannelTraffic channel, Frame* frame) except -1
    cdef int body(self, ChannelTraffic channel, Frame* frame) except -1
    cdef int keep(self, ChannelTraffic channel) except -1
    cdef int check_gathered(self, uint64_t message_bytes_max) except -1
    cdef int publish(self, ChannelTraffic channel, Frame* frame) except -1
    cdef bint has_no_room(self, ChannelTraffic channel) noexcept
    cdef int put_off(self, Frame* frame) except -1
    cdef int refuse(self, object error, Frame* frame) except -1
    cpdef int confirm_later(self, ChannelTraffic channel) except -1
