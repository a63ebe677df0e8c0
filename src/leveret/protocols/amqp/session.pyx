"""The frames of one connection, in and out: bytes in, calls out.

Publishes, their content, and what settles deliveries are dealt with here; everything else goes to
leveret.protocols.amqp.connection.AmqpConnection. Whatever is raised meanwhile becomes the answer to the frame that caused it.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint16_t

from leveret.wire.frames cimport BODY, HEADER, METHOD, free_buffer
from leveret.protocols.amqp.traffic cimport Settlement
from leveret.core.tables cimport big_endian

from leveret.wire.frames import unexpected
from leveret.wire.replies import ProtocolError, Reply
from leveret.core.errors import DiskFull

cdef enum:
    UNFINISHED_MAX = 4      # messages of the largest size that may be on their way to us at the same time
    PUBLISH = 0x003C0028
    ACK = 0x003C0050
    REJECT = 0x003C005A
    NACK = 0x003C0078
    TAG_AT = 4
    BITS_AT = 12
    FRAME_HEADER = 7
    FRAME_OVERHEAD = 8
    SETTLE_BYTES = 13
    MULTIPLE = 1
    REQUEUE = 2             # in basic.nack; in basic.reject it is the only bit


cdef class FrameSession:
    """The compiled part of a connection. Its subclass (leveret.protocols.amqp.connection.AmqpConnection) has these methods:

        current_stamp          A number that changes whenever a route may lead elsewhere, or be forbidden.
        on_frame               A frame came before the connection was open, or on a channel that is not.
        on_method              A method came on an open channel.
        dispatch               Push to consumers what was published and released until now.
        on_output_full         The server reads on from the client when that has read.
        on_publish_in_alarm    A publish came while there is no room: it waits, and all that comes after it.
        on_error               A frame was refused.
    """

    def __init__(self, FrameReader reader not None, outbox: "PendingOutput") -> None:
        self.reader = reader
        self.outlet = Outlet(outbox, self)
        self.channels = {}
        self.routes = {}
        self.noted = []
        self.aside = {}
        self.returned = bytearray()

    def receive(self, data: bytes | bytearray | memoryview) -> None:
        """Take what came from the socket."""
        self.reader.feed(data)
        self.drain()

    def free_input(self) -> None:
        """Free the input buffers in which nothing waits; of an idle connection only, as FrameReader.release."""
        cdef ChannelTraffic channel
        self.reader.release()
        for channel in self.channels.values():
            if channel.gathered.size == 0:
                free_buffer(&channel.gathered)

    def drain(self) -> None:
        """Deal with all frames that are here whole."""
        cdef Frame frame
        self.look_around()
        while not (self.waiting or self.finished or self.unreadable):
            if self.has_returned:
                self.take_up()
            if self.outlet.overfull():
                self.on_output_full()
                break
            frame = Frame(0, 0, NULL, 0)
            try:
                if not self.reader.take(&frame):
                    break
                if not self.handle(&frame):
                    break
            except DiskFull as error:
                if frame.kind == METHOD:
                    self.put_off(&frame)
                else:
                    self.refuse(error, &frame)
            except Exception as error:
                self.refuse(error, &frame)
                self.unreadable = frame.kind == 0
        if self.current is not None:
            self.keep(self.current)

    cdef int look_around(self) except -1:
        """Forget the routes if one of them may lead elsewhere now: they also keep queues that were deleted."""
        cdef uint64_t stamp = self.current_stamp()
        if stamp != self.stamp:
            self.stamp = stamp
            self.routes.clear()
        return 0

    cdef int handle(self, Frame* frame) except -1:
        """Deal with a frame; 0 when that has to wait."""
        cdef ChannelTraffic channel = self.current
        if self.aside and frame.channel in self.aside:
            self.set_aside(frame.channel, <bytes>(frame.payload - FRAME_HEADER)[:frame.size + FRAME_OVERHEAD])
            return 1
        if channel is None or channel.number != frame.channel or channel.deaf:
            if channel is not None:
                self.keep(channel)
                self.check_gathered(channel.message_bytes_max)
            channel = self.current = self.channels.get(frame.channel)
        if channel is None or channel.deaf or not self.started:
            self.on_frame(frame.kind, frame.channel, PyBytes_FromStringAndSize(<const char*>frame.payload, frame.size))
            self.look_around()
        elif frame.kind == METHOD:
            return self.method(channel, frame)
        elif frame.kind == HEADER or frame.kind == BODY:
            if self.has_no_room(channel):
                return self.put_off(frame)
            if frame.kind == HEADER:
                channel.header(frame.payload, frame.size, self.stamp)
            else:
                self.body(channel, frame)
            self.confirm_later(channel)
        return 1

    # Channels that wait, while others go on

    def stall(self, uint16_t number) -> None:
        """Set aside what comes on a channel from now on."""
        self.aside.setdefault(number, bytearray())

    def set_aside(self, uint16_t number, bytes frame not None) -> None:
        """Keep a whole frame of such a channel."""
        self.aside[number].extend(frame)
        self.aside_bytes += len(frame)

    def unstall(self, uint16_t number) -> bool:
        """Hear a channel again: what was set aside is next; gives whether there is any."""
        cdef bytearray frames = self.aside.pop(number, None) or bytearray()
        self.aside_bytes -= len(frames)
        self.returned += frames
        self.has_returned = len(self.returned) > 0
        return len(frames) > 0

    def forget_aside(self) -> None:
        """Drop what was set aside: it is not wanted any more."""
        self.aside.clear()
        self.aside_bytes = 0
        self.returned.clear()
        self.has_returned = False

    cdef int take_up(self) except -1:
        """Put what was set aside in front of what has come since: each channel keeps its order."""
        if self.current is not None:
            self.keep(self.current)
        self.reader.put_first(self.returned)
        self.returned.clear()
        self.has_returned = False
        return 0

    cdef int method(self, ChannelTraffic channel, Frame* frame) except -1:
        """Deal with a method on an open channel; 0 when that has to wait."""
        cdef uint32_t kind = <uint32_t>big_endian(frame.payload, 4)
        cdef uint64_t tag
        cdef uint8_t bits
        if channel.expects:
            raise unexpected(channel.expects)
        if kind == PUBLISH:
            return self.publish(channel, frame)
        if (kind == ACK or kind == NACK or kind == REJECT) and frame.size == SETTLE_BYTES:
            tag = big_endian(frame.payload + TAG_AT, 8)
            bits = frame.payload[BITS_AT]
            if kind == ACK:
                channel.settle(tag, bits & MULTIPLE, Settlement.ACK)
            elif kind == NACK:
                channel.settle(tag, bits & MULTIPLE, Settlement.REQUEUE if bits & REQUEUE else Settlement.REJECT)
            else:
                channel.settle(tag, False, Settlement.REQUEUE if bits & 1 else Settlement.REJECT)
        else:
            # Publishes and settlements are batched; any other method may observe what consumers got of them.
            if channel.publisher.engine.dirty:
                self.dispatch()
            self.on_method(frame.channel, PyBytes_FromStringAndSize(<const char*>frame.payload, frame.size))
            self.look_around()
        return 1

    cdef int body(self, ChannelTraffic channel, Frame* frame) except -1:
        """Take a piece of a body."""
        cdef uint64_t before = channel.gathered.size
        channel.body(frame.payload, frame.size, self.stamp)
        self.gathered += channel.gathered.size - before
        return self.check_gathered(channel.message_bytes_max)

    cdef int keep(self, ChannelTraffic channel) except -1:
        """Let a channel copy what it still needs of the buffer of the reader."""
        cdef uint64_t before = channel.gathered.size
        channel.keep()
        self.gathered += channel.gathered.size - before
        return 0

    cdef int check_gathered(self, uint64_t message_bytes_max) except -1:
        """Bound what is here of unfinished messages, headers and bodies, for all channels together."""
        cdef uint64_t most = UNFINISHED_MAX * message_bytes_max
        if self.gathered > most:
            # A guess until here: it does not know of channels that closed.
            self.gathered = sum([(<ChannelTraffic>each).gathered.size for each in self.channels.values()])
            if self.gathered > most:
                raise ProtocolError(
                    Reply.RESOURCE_ERROR, f"{self.gathered} bytes of unfinished messages: finish one before the next"
                )
        return 0

    cdef int publish(self, ChannelTraffic channel, Frame* frame) except -1:
        """Begin a publish, unless there is no room for it now."""
        if self.has_no_room(channel):
            return self.put_off(frame)
        channel.begin(frame.payload, frame.size)
        return 1

    cdef bint has_no_room(self, ChannelTraffic channel) noexcept:
        """Whether publishes have to wait: there is an alarm, or there will be one at the next look."""
        return self.alarmed or channel.publisher.engine.journal.full

    cdef int put_off(self, Frame* frame) except -1:
        """Leave a frame where it is, for there is no room for it now."""
        self.reader.position -= frame.size + 8
        self.on_publish_in_alarm()
        return 0

    cpdef int confirm_later(self, ChannelTraffic channel) except -1:
        """Remember that a channel has publishes to confirm."""
        if channel.published > channel.confirmed and not channel.noted:
            channel.noted = True
            self.noted.append(channel)
        return 0

    def take_unconfirmed(self) -> list[tuple[ChannelTraffic, int]]:
        """The channels with new publishes to confirm, and the last of them on each."""
        if not self.noted:
            return self.noted
        noted, self.noted = self.noted, []
        for channel in noted:
            (<ChannelTraffic>channel).noted = False
        return [(channel, (<ChannelTraffic>channel).published) for channel in noted]

    cdef int refuse(self, object error, Frame* frame) except -1:
        """Answer a frame that could not be dealt with; one that was not even read concerns the whole connection."""
        cdef uint32_t kind = 0
        if isinstance(error, ProtocolError) and error.code == Reply.UNEXPECTED_FRAME:
            # What is wrong is not this frame but that it comes in the middle of a content.
            kind = PUBLISH if self.current is not None and self.current.expects else 0
        elif frame.kind == METHOD:
            kind = <uint32_t>big_endian(frame.payload, 4)
        elif frame.kind == HEADER or frame.kind == BODY:
            kind = PUBLISH
        self.on_error(error, frame.channel, kind >> 16, kind & 0xFFFF)
        self.look_around()
        return 0
