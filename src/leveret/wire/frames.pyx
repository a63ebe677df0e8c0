"""Frames, cut out of a growing input buffer and written into a growing output buffer.

    | u8 kind | u16 channel | u32 size | payload | 0xCE |          kind: 1 method, 2 content header, 3 body, 8 heartbeat
    0         1             3          7         7 + size

The seven bytes in front are checked before a single byte of the payload is waited for. Compiled callers get pointers
into the buffer, Python callers get bytes: a copy of a small payload costs less than a view of it.

Bytes for a client are collected in its outlet until the loop has a turn for them: one write to a socket stands for many
messages. The holder of the lock of the broker may deliver, in whatever thread; the first one wakes the loop. A large body
is not copied into the buffer. It is framed in slices, one for each turn of the loop: other connections are served between
them, and a slice is made only when the socket takes it.
"""

from collections import deque

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from leveret.core.tables cimport big_endian

from leveret.wire.replies import ProtocolError, Reply
from leveret.core.errors import InvalidArgument

PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
# The second is what clients of AMQP 0-9 send; RabbitMQ takes them, too.
ACCEPTED = frozenset({PROTOCOL_HEADER, b"AMQP\x01\x01\x00\x09"})

cdef enum:
    FRAME_HEADER = 7
    OVERHEAD = 8                    # header and end
    FRAME_END = 0xCE
    PROTOCOL_BYTES = 8
    # Some clients count the overhead into frame_max and some do not: as RabbitMQ, we let the payload be that much longer.
    FUDGE = 8
    METHOD_BYTES_MIN = 4
    HEADER_BYTES_MIN = 14
    # What a busy connection uses again and again; it does not hold on to what one large message needed.
    KEPT_BYTES_MAX = 524_288
    # What one connection may have in memory beside the buffer of its socket: enough for the next write, no more.
    OUTPUT_BYTES_MAX = 262_144
    SLICE_BYTES = 1_048_576         # of a large body, for one turn of the loop
    # A few bytes ask for a large message: a client that does not read what it asked for must not go on asking.
    UNREAD_BYTES_MAX = 1_048_576


def accepts(bytes header not None) -> bool:
    """Whether we speak the protocol of these eight bytes; if not, send PROTOCOL_HEADER and close."""
    return header in ACCEPTED


cdef class FrameReader:
    """Bytes in, frames out; after a ProtocolError nothing more can be read from it.

    Take all frames after each feed: then no more is buffered than one frame and one feed.
    """

    def __cinit__(self, uint32_t frame_max_offered=131_072, uint16_t channel_max_offered=2_047):
        if not FRAME_MAX_MIN <= frame_max_offered <= FRAME_MAX_MAX or channel_max_offered == 0:
            raise InvalidArgument(f"frame_max is {FRAME_MAX_MIN} to {FRAME_MAX_MAX} bytes, channel_max at least 1")
        self.frame_max_offered = frame_max_offered
        self.channel_max_offered = channel_max_offered
        self.frame_max = FRAME_MAX_UNTUNED
        self.channel_max = 0        # before the tuning there is only channel 0

    def __dealloc__(self):
        free(self.buffer.data)

    @property
    def buffered_bytes(self) -> int:
        """What was fed and not taken."""
        return self.buffer.size - self.position

    def tune(self, uint32_t frame_max, uint16_t channel_max) -> None:
        """Set what the client answered; it may lower what was offered, not raise it."""
        negotiated("frame_max", frame_max, FRAME_MAX_MIN, self.frame_max_offered)
        negotiated("channel_max", channel_max, 1, self.channel_max_offered)
        self.frame_max = frame_max
        self.channel_max = channel_max

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add what came from the socket."""
        cdef Py_buffer view
        drop(&self.buffer, self.position)
        self.position = 0
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            memcpy(room(&self.buffer, view.len), view.buf, view.len)
        finally:
            PyBuffer_Release(&view)

    cdef bint take_buffer(self, FrameWriter writer) noexcept:
        """Feed all that was written, without a copy; False when something is left of what was fed before."""
        if self.position < self.buffer.size:
            return False
        self.buffer.size = self.position = 0
        self.buffer, writer.buffer = writer.buffer, self.buffer
        return True

    def put_first(self, data: bytes | bytearray) -> None:
        """Let frames that were taken before be the next ones again."""
        cdef bytes rest = PyBytes_FromStringAndSize(<char*>self.buffer.data + self.position, self.buffered_bytes)
        self.position = self.buffer.size
        self.feed(data)
        self.feed(rest)

    def protocol_header(self) -> bytes | None:
        """The eight bytes that every connection begins with; None while there are fewer."""
        if self.buffer.size - self.position < PROTOCOL_BYTES:
            return None
        self.position += PROTOCOL_BYTES
        return PyBytes_FromStringAndSize(<char*>self.buffer.data + self.position - PROTOCOL_BYTES, PROTOCOL_BYTES)

    def release(self) -> None:
        """Free the buffer if nothing waits in it; of an idle connection only, for the next feed allocates it again."""
        if self.position == self.buffer.size:
            free_buffer(&self.buffer)
            self.position = 0

    def next_frame(self) -> tuple[int, int, bytes] | None:
        """Kind, channel and payload of the next frame; None while it is incomplete."""
        cdef Frame frame
        if not self.take(&frame):
            return None
        return frame.kind, frame.channel, PyBytes_FromStringAndSize(<const char*>frame.payload, frame.size)

    cdef bint take(self, Frame* frame) except -1:
        """Find the next frame; False while it is incomplete."""
        cdef const uint8_t* data = self.buffer.data + self.position
        cdef uint64_t left = self.buffer.size - self.position
        if left < FRAME_HEADER:
            return False
        cdef uint64_t size = big_endian(data + 3, 4)
        self.check(data, size)
        if left - FRAME_HEADER <= size:
            return False
        if data[FRAME_HEADER + size] != FRAME_END:
            raise ProtocolError(Reply.FRAME_ERROR, f"frame ends with {data[FRAME_HEADER + size]:#x}, not {FRAME_END:#x}")
        frame[0] = Frame(data[0], <uint16_t>big_endian(data + 1, 2), data + FRAME_HEADER, <uint32_t>size)
        self.position += FRAME_HEADER + size + 1
        return True

    cdef int check(self, const uint8_t* data, uint64_t size) except -1:
        """Refuse a frame by its first seven bytes."""
        cdef uint8_t kind = data[0]
        cdef uint64_t channel = big_endian(data + 1, 2)
        if size > self.frame_max - OVERHEAD + FUDGE:
            raise ProtocolError(Reply.FRAME_ERROR, f"frame of {size} bytes, the limit is {self.frame_max}: split it")
        if channel and self.channel_max == 0:
            raise ProtocolError(Reply.CHANNEL_ERROR, f"channel {channel} is used before connection.tune-ok")
        if kind == METHOD:
            return minimum(size, METHOD_BYTES_MIN)
        if kind == HEADER or kind == BODY:
            if channel == 0:
                raise ProtocolError(Reply.UNEXPECTED_FRAME, "content on channel 0")
            return minimum(size, HEADER_BYTES_MIN if kind == HEADER else 0)
        if kind != HEARTBEAT:
            raise ProtocolError(Reply.FRAME_ERROR, f"unknown frame type {kind}")
        if channel != 0:
            raise ProtocolError(Reply.UNEXPECTED_FRAME, f"heartbeat on channel {channel}, it belongs on channel 0")
        if size != 0:
            raise ProtocolError(Reply.FRAME_ERROR, "heartbeat with a payload")
        return 0


cdef class FrameWriter:
    """Frames in, bytes out."""

    def __cinit__(self):
        self.frame_max = FRAME_MAX_MIN

    def __dealloc__(self):
        free(self.buffer.data)

    @property
    def pending_bytes(self) -> int:
        """What was written and not taken."""
        return self.buffer.size

    def tune(self, uint32_t frame_max) -> None:
        """Set the size of frames that was agreed on."""
        negotiated("frame_max", frame_max, FRAME_MAX_MIN, FRAME_MAX_MAX)
        self.frame_max = frame_max

    def method(self, uint16_t channel, bytes payload not None) -> None:
        """Write a method frame."""
        self.put(METHOD, channel, <const uint8_t*>PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))

    def content(self, uint16_t channel, bytes payload not None, bytes content not None, uint32_t header_len) -> None:
        """Write a method frame and its content: `header_len` bytes of header, then the body in as few frames as can be.

        A method or a header cannot be split, whatever frame_max is: it goes out whole, as RabbitMQ sends it.
        """
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(content)
        cdef uint64_t position = header_len
        cdef uint64_t end = PyBytes_GET_SIZE(content)
        cdef uint64_t size
        if not HEADER_BYTES_MIN <= header_len <= end:
            raise InvalidArgument(f"a header of {header_len} bytes in {end} bytes of content")
        self.method(channel, payload)
        self.put(HEADER, channel, data, header_len)
        while position < end:
            size = min(end - position, <uint64_t>(self.frame_max - OVERHEAD))
            self.put(BODY, channel, data + position, size)
            position += size

    def heartbeat(self) -> None:
        """Write a heartbeat."""
        self.put(HEARTBEAT, 0, NULL, 0)

    def release(self) -> None:
        """Free the buffer if nothing waits in it, as FrameReader.release does."""
        if self.buffer.size == 0:
            free_buffer(&self.buffer)

    def take(self) -> bytes:
        """Everything that was written since the last time."""
        written = PyBytes_FromStringAndSize(<char*>self.buffer.data, self.buffer.size)
        drop(&self.buffer, self.buffer.size)
        return written

    cdef int put(self, uint8_t kind, uint16_t channel, const uint8_t* payload, uint64_t size) except -1:
        """Append one frame."""
        if size > 0xFFFFFFFF:
            raise InvalidArgument(f"a frame of {size} bytes: its size has 32 bits only")
        cdef uint8_t* data = room(&self.buffer, size + OVERHEAD)
        data[0] = kind
        data[1], data[2] = <uint8_t>(channel >> 8), <uint8_t>channel
        data[3], data[4] = <uint8_t>(size >> 24), <uint8_t>(size >> 16)
        data[5], data[6] = <uint8_t>(size >> 8), <uint8_t>size
        if size:
            memcpy(data + FRAME_HEADER, payload, size)
        data[FRAME_HEADER + size] = FRAME_END
        return 0


cdef int minimum(uint64_t size, uint64_t least) except -1:
    if size < least:
        raise ProtocolError(Reply.FRAME_ERROR, f"frame of {size} bytes, its kind has at least {least}")
    return 0


cdef int negotiated(str field, uint32_t value, uint32_t least, uint32_t most) except -1:
    """Refuse a value outside its range, in RabbitMQ's words; 0 stands for no limit, which is above any."""
    if 0 < value < least:
        raise ProtocolError(
            Reply.NOT_ALLOWED, f"negotiated {field} = {value} is lower than the minimum allowed value ({least})"
        )
    if value == 0 or value > most:
        raise ProtocolError(
            Reply.NOT_ALLOWED, f"negotiated {field} = {value} is higher than the maximum allowed value ({most})"
        )
    return 0


cdef uint8_t* room(Buffer* buffer, uint64_t size) except NULL:
    """Where the next `size` bytes go."""
    cdef uint64_t needed = buffer.size + size
    cdef void* grown
    if needed > buffer.capacity or buffer.data == NULL:
        grown = realloc(buffer.data, needed + needed // 2 + 64)
        if grown == NULL:
            raise MemoryError
        buffer.data = <uint8_t*>grown
        buffer.capacity = needed + needed // 2 + 64
    buffer.size = needed
    return buffer.data + needed - size


cdef void drop(Buffer* buffer, uint64_t size) noexcept:
    """Forget the first bytes; memory that only a large message needed is given back."""
    if size == 0:
        return
    buffer.size -= size
    if buffer.size:
        memmove(buffer.data, buffer.data + size, buffer.size)
    elif buffer.capacity > KEPT_BYTES_MAX:
        free_buffer(buffer)


cdef void free_buffer(Buffer* buffer) noexcept:
    """Forget all bytes, and free their memory."""
    free(buffer.data)
    buffer[0] = Buffer(NULL, 0, 0)


def unexpected(uint8_t expects) -> ProtocolError:
    """The refusal of a frame that is out of order, in RabbitMQ's words."""
    if expects == HEADER:
        text = "expected content header for class 60, got non content header frame instead"
    elif expects == BODY:
        text = "expected content body, got non content body frame instead"
    else:
        text = "expected method frame, got non method frame instead"
    return ProtocolError(Reply.UNEXPECTED_FRAME, text)


cdef class PendingOutput:
    """The connections that have something to send."""

    def __init__(self, wake: Callable[[], object]) -> None:
        self.waiting = []
        self.wake = wake

    def take(self) -> list[Any]:
        """Those that have something to send since the last time."""
        waiting, self.waiting = self.waiting, []
        return waiting


cdef class LargeBody:
    """A body of which a part is still to be sent."""


cdef class Outlet(FrameWriter):
    """The frames that go to one client."""

    def __init__(self, PendingOutput outbox not None, connection) -> None:
        self.outbox = outbox
        self.connection = connection
        self.parts = deque()
        self.slices = FrameWriter()

    def note(self) -> None:
        """Say that something is here to be sent."""
        self.changed()

    cdef int changed(self) except -1:
        if not self.noted:
            self.noted = True
            self.outbox.waiting.append(self.connection)
            if len(self.outbox.waiting) == 1:
                self.outbox.wake()
        return 0

    def take(self) -> bytes:
        """See FrameWriter; nothing while the socket takes no more. Of a large body a slice, and the next one later."""
        cdef bytes taken
        self.noted = False
        if self.paused:
            return b""
        if not self.parts:
            return FrameWriter.take(self)
        taken = self.take_part()
        self.changed()
        return taken

    def take_all(self) -> bytes:
        """All that is to be sent, in one piece: the last words to a client."""
        cdef list taken = []
        while self.parts:
            taken.append(self.take_part())
        taken.append(FrameWriter.take(self))
        self.noted = False
        return b"".join(taken)

    cdef bytes take_part(self):
        """The next slice of what goes before the buffer."""
        cdef LargeBody large
        cdef uint64_t size, left
        if not isinstance(self.parts[0], LargeBody):
            taken = self.parts.popleft()
            self.parts_bytes -= len(taken)
            return taken
        large = self.parts[0]
        self.slices.frame_max = self.frame_max
        left = PyBytes_GET_SIZE(large.body) - large.position
        while left and self.slices.buffer.size < SLICE_BYTES:
            size = min(left, <uint64_t>(self.frame_max - OVERHEAD))
            self.slices.put(BODY, large.channel, <const uint8_t*>PyBytes_AS_STRING(large.body) + large.position, size)
            large.position += size
            self.parts_bytes -= size
            left -= size
        if left == 0:
            self.parts.popleft()
            self.larges -= 1
        return FrameWriter.take(self.slices)

    cdef int put_body(self, uint16_t channel, bytes body) except -1:
        """Write a body in as few frames as can be; a large one waits for its turns."""
        cdef LargeBody large
        cdef uint64_t position = 0, piece, size = PyBytes_GET_SIZE(body)
        if size <= SLICE_BYTES:
            while position < size:
                piece = min(size - position, <uint64_t>(self.frame_max - OVERHEAD))
                self.put(BODY, channel, <const uint8_t*>PyBytes_AS_STRING(body) + position, piece)
                position += piece
            return 0
        large = LargeBody()
        large.channel, large.body = channel, body
        before = FrameWriter.take(self)
        self.parts.append(before)
        self.parts.append(large)
        self.parts_bytes += len(before) + size
        self.larges += 1
        return 0

    cdef int put_frames(self, const uint8_t* frames, uint64_t size) except -1:
        """Write frames that are whole."""
        memcpy(room(&self.buffer, size), frames, size)
        return self.changed()

    cdef int take_frames(self, FrameReader reader, uint64_t begin, uint64_t end) except -1:
        """Write what a reader has between two places, as `put_frames`; it goes on at the end of that.

        If that is most of what the reader has, this takes over its buffer and gives it a copy of what comes after.
        """
        cdef uint64_t rest = reader.buffer.size - end
        reader.position = end
        if self.buffer.size or begin + rest > end - begin:
            return self.put_frames(reader.buffer.data + begin, end - begin)
        self.buffer, reader.buffer = reader.buffer, self.buffer
        if rest:
            memcpy(room(&reader.buffer, rest), self.buffer.data + end, rest)
        reader.position = 0
        self.buffer.size = end
        drop(&self.buffer, begin)
        return self.changed()

    @property
    def pending_bytes(self) -> int:
        """What was written and not taken."""
        return self.buffer.size + self.parts_bytes

    def close(self) -> None:
        """Forget the connection: nothing more is sent."""
        self.connection = None
        self.paused = True
        self.noted = True
        self.parts.clear()
        self.parts_bytes = self.larges = 0

    @property
    def is_overfull(self) -> bool:
        """Whether the client has to read before the server reads from it again."""
        return self.overfull()

    cdef bint overfull(self) noexcept:
        """The server reads from a client while one large body is on its way: the client may send one before it reads."""
        return self.buffer.size > UNREAD_BYTES_MAX or self.larges > 1

    cdef bint full(self) noexcept:
        """Whether no more messages may be put here for now; remembers that some wanted to."""
        if self.paused or self.buffer.size + self.parts_bytes >= OUTPUT_BYTES_MAX:
            self.starved = True
            return True
        return False
