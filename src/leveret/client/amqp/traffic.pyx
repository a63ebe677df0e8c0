"""The frames of a client's connection: what comes becomes deliveries, confirms and methods; what is published, bytes.

    basic.deliver, basic.get-ok    | u32 class and method | (deliver: u8 length, consumer tag) | u64 tag | u8 redelivered | ...
    basic.ack, basic.nack          | u32 class and method | u64 tag | bits: 1 multiple |

A message that is published has a content header made once for all that are alike. In it the size of the body is filled
in and, if it has an id of ours, its number.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.core.tables cimport big_endian
from leveret.wire.frames cimport BODY, HEADER, METHOD, Frame, FrameReader, FrameWriter

from leveret.wire.frames import unexpected
from leveret.wire.replies import ProtocolError, Reply

cdef enum:
    RETURN = 0x003C0032
    DELIVER = 0x003C003C
    GET_OK = 0x003C0047
    ACK = 0x003C0050
    NACK = 0x003C0078
    BODY_SIZE_AT = 4
    TAG_AT = 4
    BITS_AT = 12
    SETTLE_BYTES = 13
    DELIVER_BYTES_MIN = 16
    NUMBER_DIGITS = 12

cdef const char* HEX = b"0123456789abcdef"


cdef class Delivery:
    """A message that came: by basic.deliver, basic.get-ok or basic.return, whose payload is `method`."""

    cdef readonly uint16_t channel
    cdef readonly uint32_t kind
    cdef readonly uint64_t tag
    cdef readonly bint redelivered
    cdef readonly bytes method
    cdef readonly bytes header
    cdef readonly bytes body


cdef class ClientTraffic:
    """Bytes in, events out; and frames in, bytes out. After a ProtocolError it is of no use."""

    cdef FrameReader reader
    cdef FrameWriter writer
    cdef uint64_t body_bytes_max
    cdef dict unfinished                    # channel: the Delivery whose content is on its way, its body so far, what is missing
    cdef uint64_t unfinished_bytes          # of bodies of all channels
    cdef readonly uint16_t publishing       # the channel that is in confirm mode; 0: none
    cdef readonly uint64_t published
    cdef readonly uint64_t confirmed        # everything up to here was answered
    cdef readonly list refused  # type: list[int]  # those that were answered by basic.nack
    cdef set early                          # those that were answered before an earlier one

    def __init__(self, uint64_t body_bytes_max) -> None:
        self.reader = FrameReader()
        self.writer = FrameWriter()
        self.body_bytes_max = body_bytes_max
        self.unfinished = {}
        self.refused = []
        self.early = set()

    def tune(self, uint32_t frame_max, uint16_t channel_max) -> None:
        """Set what was agreed on."""
        self.reader.tune(frame_max, channel_max)
        self.writer.tune(frame_max)

    def begin_confirms(self, uint16_t channel) -> None:
        """Count publishes of a channel from now on."""
        self.publishing = channel
        self.published = self.confirmed = 0
        self.refused = []
        self.early = set()

    def forget(self, uint16_t channel) -> None:
        """Drop what has come in part on a channel that is closed."""
        found = self.unfinished.pop(channel, None)
        if found is not None and found[1]:
            self.unfinished_bytes -= <uint64_t>len(found[1])

    # In

    def receive(self, data: bytes | bytearray | memoryview) -> list[Delivery | tuple[int, bytes]]:
        """Deliveries, and other methods as (channel, payload), in their order; confirms are counted."""
        cdef Frame frame
        cdef list events = []
        self.reader.feed(data)
        while self.reader.take(&frame):
            if frame.kind == METHOD:
                self.method_came(&frame, events)
            elif frame.kind == HEADER or frame.kind == BODY:
                self.content_came(&frame, events)
        return events

    cdef int method_came(self, Frame* frame, list events) except -1:
        cdef uint32_t kind = <uint32_t>big_endian(frame.payload, 4)
        cdef Delivery delivery
        cdef uint64_t at
        if self.unfinished and frame.channel in self.unfinished:
            raise unexpected(HEADER if self.unfinished[frame.channel][2] < 0 else BODY)
        if (kind == ACK or kind == NACK) and frame.size == SETTLE_BYTES and frame.channel == self.publishing:
            return self.answered(big_endian(frame.payload + TAG_AT, 8), frame.payload[BITS_AT] & 1, kind == NACK)
        payload = PyBytes_FromStringAndSize(<const char*>frame.payload, frame.size)
        if kind != DELIVER and kind != GET_OK and kind != RETURN:
            events.append((frame.channel, payload))
            return 0
        delivery = Delivery()
        delivery.channel, delivery.kind, delivery.method = frame.channel, kind, payload
        if kind != RETURN:
            at = TAG_AT if kind == GET_OK or frame.size < DELIVER_BYTES_MIN else TAG_AT + 1 + frame.payload[TAG_AT]
            if at + 9 > frame.size:
                raise ProtocolError(Reply.SYNTAX_ERROR, "a delivery without its tag")
            delivery.tag = big_endian(frame.payload + at, 8)
            delivery.redelivered = frame.payload[at + 8] & 1
        self.unfinished[frame.channel] = (delivery, None, -1)
        return 0

    cdef int content_came(self, Frame* frame, list events) except -1:
        cdef Delivery delivery
        cdef uint64_t left
        found = self.unfinished.get(frame.channel)
        if found is None or (found[2] < 0) != (frame.kind == HEADER):
            raise unexpected(METHOD if found is None else HEADER if found[2] < 0 else BODY)
        delivery = found[0]
        piece = PyBytes_FromStringAndSize(<const char*>frame.payload, frame.size)
        if frame.kind == HEADER:
            left = big_endian(frame.payload + BODY_SIZE_AT, 8)
            if left > self.body_bytes_max:
                raise ProtocolError(
                    Reply.CONTENT_TOO_LARGE, f"a message of {left} bytes, this client takes {self.body_bytes_max} at most"
                )
            delivery.header, delivery.body = piece, b""
            if left:
                self.unfinished[frame.channel] = (delivery, bytearray(), left)
                return 0
        elif frame.size > <uint64_t>found[2]:
            raise ProtocolError(Reply.FRAME_ERROR, "a body is longer than its header says")
        else:
            left = <uint64_t>found[2] - frame.size
            if left:
                found[1].extend(piece)
                self.unfinished[frame.channel] = (delivery, found[1], left)
                self.unfinished_bytes += frame.size
                if self.unfinished_bytes > self.body_bytes_max:
                    raise ProtocolError(Reply.RESOURCE_ERROR, f"{self.unfinished_bytes} bytes of unfinished messages")
                return 0
            if found[1]:
                self.unfinished_bytes -= <uint64_t>len(found[1])
                found[1].extend(piece)
                delivery.body = bytes(found[1])
            else:
                delivery.body = piece
        del self.unfinished[frame.channel]
        events.append(delivery)
        return 0

    cdef int answered(self, uint64_t tag, bint multiple, bint refused) except -1:
        """Count what a confirm speaks of."""
        cdef uint64_t each
        if multiple and tag == 0:
            tag = self.published
        if tag > self.published or (tag == 0 and not multiple):
            raise ProtocolError(Reply.COMMAND_INVALID, f"a confirm of message {tag}, {self.published} were published")
        if tag <= self.confirmed:
            return 0
        if refused:
            for each in range(self.confirmed + 1 if multiple else tag, tag + 1):
                if not self.early or each not in self.early:
                    self.refused.append(each)
        if multiple:
            if self.early:
                self.early = {number for number in self.early if number > tag}
            self.confirmed = tag
        elif tag == self.confirmed + 1:
            self.confirmed = tag
        else:
            self.early.add(tag)
        while self.early and self.confirmed + 1 in self.early:
            self.confirmed += 1
            self.early.remove(self.confirmed)
        return 0

    # Out

    @property
    def pending_bytes(self) -> int:
        """What was written and not taken."""
        return self.writer.buffer.size

    def write(self, uint16_t channel, bytes payload not None) -> None:
        """Write a method."""
        self.writer.method(channel, payload)

    def heartbeat(self) -> None:
        """Write a heartbeat."""
        self.writer.heartbeat()

    def publish(self, uint16_t channel, bytes method not None, bytes header not None, int number_at, uint64_t number, bodies: list[bytes]) -> None:
        """Publish bodies by one method, with one header; `number_at` is where the number of each goes in it, -1: nowhere."""
        cdef bytes body
        cdef uint64_t position, size, piece, header_size = PyBytes_GET_SIZE(header)
        cdef bytes own = PyBytes_FromStringAndSize(PyBytes_AS_STRING(header), header_size)
        cdef uint8_t* head = <uint8_t*>PyBytes_AS_STRING(own)
        cdef const uint8_t* data
        cdef int i
        for body in bodies:
            size = PyBytes_GET_SIZE(body)
            data = <const uint8_t*>PyBytes_AS_STRING(body)
            for i in range(8):
                head[BODY_SIZE_AT + i] = <uint8_t>(size >> (56 - 8 * i))
            if number_at >= 0:
                for i in range(NUMBER_DIGITS):
                    head[number_at + i] = HEX[(number >> (44 - 4 * i)) & 15]
                number += 1
            self.writer.put(METHOD, channel, <const uint8_t*>PyBytes_AS_STRING(method), PyBytes_GET_SIZE(method))
            self.writer.put(HEADER, channel, head, header_size)
            position = 0
            while position < size:
                piece = min(size - position, <uint64_t>self.writer.frame_max - 8)
                self.writer.put(BODY, channel, data + position, piece)
                position += piece
        if channel == self.publishing:
            self.published += <uint64_t>len(bodies)

    def take(self) -> bytes:
        """Everything that was written since the last time."""
        return self.writer.take()
