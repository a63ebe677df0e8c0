from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cpdef enum:
    METHOD = 1
    HEADER = 2
    BODY = 3
    HEARTBEAT = 8
    FRAME_MAX_UNTUNED = 24_576      # before the login: a web token (handshake.RESPONSE_BYTES_MAX) and the client's properties
    FRAME_MAX_MIN = 4_096           # a smaller one would have a body of megabytes cut into millions of frames
    FRAME_MAX_MAX = 1_048_576

cdef struct Frame:
    uint8_t kind
    uint16_t channel
    const uint8_t* payload          # inside the reader's buffer: good until the next feed
    uint32_t size

cdef struct Buffer:                 # bytes that grow
    uint8_t* data
    uint64_t size
    uint64_t capacity

cdef class FrameWriter

cdef class FrameReader:
    cdef Buffer buffer
    cdef uint64_t position          # of the first byte that was not taken
    cdef readonly uint32_t frame_max_offered
    cdef readonly uint16_t channel_max_offered
    cdef readonly uint32_t frame_max
    cdef readonly uint16_t channel_max

    cdef bint take_buffer(self, FrameWriter writer) noexcept
    cdef int check(self, const uint8_t* data, uint64_t size) except -1
    cdef bint take(self, Frame* frame) except -1

cdef class FrameWriter:
    cdef Buffer buffer
    cdef readonly uint32_t frame_max

    cdef int put(self, uint8_t kind, uint16_t channel, const uint8_t* payload, uint64_t size) except -1

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
    cdef int put_frames(self, const uint8_t* frames, uint64_t size) except -1
    cdef int take_frames(self, FrameReader reader, uint64_t begin, uint64_t end) except -1
    cdef bytes take_part(self)
    cdef bint overfull(self) noexcept
    cdef int changed(self) except -1
    cdef bint full(self) noexcept

cdef uint8_t* room(Buffer* buffer, uint64_t size) except NULL
cdef void drop(Buffer* buffer, uint64_t size) noexcept
cdef void free_buffer(Buffer* buffer) noexcept

cdef inline void frame_start(uint8_t* data, uint8_t kind, uint32_t channel, uint32_t size) noexcept:
    """The first bytes of a frame."""
    cdef int i
    data[0] = kind
    data[1], data[2] = <uint8_t>(channel >> 8), <uint8_t>channel
    for i in range(4):
        data[3 + i] = <uint8_t>(size >> (24 - 8 * i))
