"""Messages of a client on their way to shards and back: what is done for each of them, compiled.

    client -> Relay.send, Relay.settle -> ShardConnectionBase -> shard          a Relay is a channel of the client, a ShardConnectionBase its
    client <- Relay.deliver <- ShardConnectionBase.receive <- shard             connection to a shard, a ShardChannelBase a channel there

What is unusual goes through ProxyChannel, ShardConnection and ShardChannel, whose compiled parts these are.

To a shard of this node a publish or settlement goes straight: `ShardConnectionBase.reach` takes the lock of the shard for
the rest of the turn, and the channel there gets the message as it was parsed. It goes as frames, as to another node, while
something said before is on its way as frames, or the shard does not listen. Deliveries come framed for the client from
either; only the delivery tag is replaced, where it lies.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from leveret.wire.frames cimport BODY, FRAME_MAX_MAX, HEADER, METHOD
from leveret.protocols.amqp.traffic cimport put_tag
from leveret.core.held cimport Held
from leveret.core.properties cimport Scan
from leveret.core.queue cimport Queue
from leveret.core.tables cimport big_endian

from leveret.cluster.proxy.claims import short
from leveret.protocols.amqp.publishing import check_sizes
from leveret.wire.replies import ProtocolError, Reply

cdef enum:
    CHANNEL_MAX = 65_535
    UNSURE_MAX = 100_000        # the oldest ones are forgotten: if the shard loses them their messages are redelivered
    PUBLISH = 0x003C0028
    DELIVER = 0x003C003C
    ACK = 0x003C0050
    NACK = 0x003C0078
    ACKED = 0                   # how a delivery is settled, as in leveret.protocols.amqp.transaction
    REQUEUED = 1
    REQUEUE = 2                 # in the bits of basic.nack
    MANDATORY = 1
    BASIC = 60
    PUBLISH_METHOD = 40
    ACK_METHOD = 80
    NACK_METHOD = 120
    SETTLEMENT_BYTES = 13
    TAG_AT = 4
    MULTIPLE_AT = 12
    FRAME_HEADER = 7
    ROUTE_AT = 6                # in basic.publish, drawn in leveret/protocols/amqp/traffic.pyx
    PUBLISH_BYTES_MAX = 519
    BODY_SIZE_AT = 4            # in a content header
    CONSUMER_AT = 5             # in basic.deliver
    TAG_AND_FLAG = 9
    OVERHEAD = 8

cdef uint64_t NO_LIMIT = 0xFFFFFFFFFFFFFFFF


cdef class ShardConnectionBase:
    """The compiled part of a ShardConnection, which has `on_frame(kind, number, payload)` for frames that are no such message."""

    def __init__(self, FrameSession connection not None) -> None:
        self.connection = connection
        self.shard_channels = {}
        self.closing = {}
        self.unsure = MessageNames()
        self.begin()

    def begin(self) -> None:
        """Begin anew on both ends."""
        self.reader = FrameReader(FRAME_MAX_MAX, CHANNEL_MAX)
        self.reader.tune(FRAME_MAX_MAX, CHANNEL_MAX)
        self.writer = FrameWriter()

    # Out, straight

    cdef ChannelTraffic reach(self, ShardChannelBase shard_channel):
        """A channel in a shard of this node, whose lock is held until `leave_shards`; None: the shard gets frames."""
        cdef FrameSession shard = self.direct
        cdef ChannelTraffic target
        if shard is None or self.writer.buffer.size:
            return None
        if not self.entered:
            if not self.enter():
                return None
            shard.look_around()
            self.turn += 1
        elif shard.waiting or shard.finished:
            return None
        if shard_channel.turn != self.turn:
            shard_channel.turn, shard_channel.target = self.turn, shard.channels.get(shard_channel.number)
        target = shard_channel.target
        if target is None or target.deaf or target.expects:
            return None
        return target

    cdef int publish_in(self, ChannelTraffic target, Relay channel, bytes route, uint8_t bits, const uint8_t* header,
                        const uint8_t* body, Scan* found) except -1:
        """Let a shard of this node publish a message; what it refuses it says to its channel, as if frames had come."""
        target.route_at, target.route_len = <const uint8_t*>PyBytes_AS_STRING(route), <uint32_t>PyBytes_GET_SIZE(route)
        target.bits, target.header_len, target.body_len = bits, channel.header_len, channel.body_len
        try:
            target.accept(header, body, found, self.direct.stamp)
            if not target.noted:
                self.direct.confirm_later(target)
        except Exception as error:
            self.direct.on_error(error, target.number, BASIC, PUBLISH_METHOD)
        return 0

    cdef int settle_in(self, ChannelTraffic target, uint64_t tag, bint multiple, uint8_t how) except -1:
        """Let a shard of this node settle a delivery, or all up to it."""
        try:
            target.settle(tag, multiple, how)
        except Exception as error:
            self.direct.on_error(error, target.number, BASIC, ACK_METHOD if how == ACKED else NACK_METHOD)
        return 0

    # Out, as frames

    def method(self, uint16_t number, bytes payload not None) -> None:
        self.writer.method(number, payload)
        self.changed()

    def content(self, uint16_t number, bytes method not None, bytes content not None, uint32_t header_len) -> None:
        self.writer.content(number, method, content, header_len)
        self.changed()

    def note(self) -> None:
        """Say that something is to be sent."""
        self.changed()

    cdef int changed(self) except -1:
        """The connection needs to hear that once in a turn."""
        if not self.noted:
            self.noted = True
            self.connection.note(self)
        return 0

    cdef int publish(self, Relay channel, bytes route, uint8_t bits, const uint8_t* header, const uint8_t* body) except -1:
        """Send the message that a channel has received."""
        cdef FrameWriter writer = self.writer
        cdef uint32_t size = ROUTE_AT + <uint32_t>len(route) + 1
        cdef uint64_t position = 0, piece
        cdef uint8_t method[PUBLISH_BYTES_MAX]
        assert size <= PUBLISH_BYTES_MAX, "two short strings"
        put_method(method, PUBLISH)
        method[4] = method[5] = 0
        memcpy(method + ROUTE_AT, <const char*>route, len(route))
        method[size - 1] = bits
        writer.put(METHOD, channel.number, method, size)
        writer.put(HEADER, channel.number, header, channel.header_len)
        while position < channel.body_len:
            piece = min(channel.body_len - position, <uint64_t>(writer.frame_max - OVERHEAD))
            writer.put(BODY, channel.number, body + position, piece)
            position += piece
        return self.changed()

    cdef int settle(self, ShardChannelBase shard_channel, uint64_t tag, bint multiple, uint8_t how) except -1:
        """Tell the shard what became of a delivery, or of all up to it."""
        cdef uint8_t method[SETTLEMENT_BYTES]
        cdef ChannelTraffic target = self.reach(shard_channel)
        if target is not None:
            return self.settle_in(target, tag, multiple, how)
        put_method(method, ACK if how == ACKED else NACK)
        put_tag(method + TAG_AT, tag)
        method[MULTIPLE_AT] = multiple | (REQUEUE if how == REQUEUED else 0)
        self.writer.put(METHOD, shard_channel.number, method, SETTLEMENT_BYTES)
        return self.changed()

    cdef int remember(self, ShardChannelBase shard_channel, uint8_t how, Delivery* settled) except -1:
        """Until the shard has a settlement on its disks, its next owner may have to be told; call before `settle`."""
        cdef Name name
        if settled.name.queue != NULL:
            self.unsure.push(self.last_mark + 1, how, &settled.name)
        elif shard_channel.identify(settled.inner, &name):
            self.unsure.push(self.last_mark + 1, how, &name)
        if self.unsure.end - self.unsure.first > UNSURE_MAX:
            self.unsure.drop()
        return 0

    # In

    def receive(self, bytes data not None) -> None:
        """Frames came from the shard."""
        self.reader.feed(data)
        self.read()

    def receive_from(self, FrameSession shard not None) -> None:
        """The same from the other end itself, which is in this process; large bodies it hands over in pieces."""
        if not shard.outlet.paused and not shard.outlet.parts and self.reader.take_buffer(shard.outlet):
            self.read()

    cdef int read(self) except -1:
        """Deal with all frames that are here whole."""
        cdef FrameReader reader = self.reader
        cdef Frame frame
        try:
            while reader is self.reader and reader.take(&frame):
                if frame.kind == METHOD and self.deliver(reader, &frame):
                    continue
                if self.whole_size:
                    self.hand_over(reader)
                    continue    # the frame lies somewhere else now
                if frame.kind != METHOD or not self.confirm(&frame):
                    self.on_frame(frame.kind, frame.channel, <bytes>frame.payload[:frame.size])
                self.taker = None
            if self.whole_size:
                self.hand_over(reader)
        finally:
            self.whole_size, self.taker = 0, None
        return 0

    cdef int hand_over(self, FrameReader reader) except -1:
        """Give the client the deliveries that it gets as they are; the reader goes on behind them."""
        cdef uint64_t begin = self.whole - reader.buffer.data, size = self.whole_size
        self.whole_size = 0
        return self.connection.outlet.take_frames(reader, begin, begin + size)

    cdef int hand_on(self) except -1:
        """The same while frames of the reader are in use."""
        cdef uint64_t size = self.whole_size
        self.whole_size = 0
        return self.connection.outlet.put_frames(self.whole, size) if size else 0

    cdef bint find_channel(self, uint16_t number) except -1:
        """Whether a channel is open on both ends; then `taker` and `giver` are these."""
        if self.taker is None or self.taker.number != number:
            self.giver, self.taker = self.shard_channels.get(number), self.connection.channels.get(number)
            if self.giver is None or number in self.closing:
                self.taker = None
            elif self.taker is not None:
                self.giver.consumer = None
        return self.taker is not None

    cdef bint confirm(self, Frame* method) except -1:
        """Hand a confirm to its channel, if it is one."""
        cdef uint64_t kind = big_endian(method.payload, 4)
        if method.size != SETTLEMENT_BYTES or (kind != ACK and kind != NACK):
            return False
        if self.find_channel(method.channel):
            self.taker.confirm_sent(
                self.giver.sent, big_endian(method.payload + TAG_AT, 8), method.payload[MULTIPLE_AT] & 1, kind == ACK
            )
        return True

    cdef bint deliver(self, FrameReader reader, Frame* method) except -1:
        """Hand a message to its channel, if it is one that is delivered and is here whole."""
        cdef uint64_t begin = reader.position
        cdef Frame header, body = Frame(BODY, method.channel, NULL, 0)
        cdef uint64_t body_len
        cdef Passing passing = Passing.DROPPED
        if big_endian(method.payload, 4) != DELIVER or not reader.take(&header):
            return False
        body_len = big_endian(header.payload + BODY_SIZE_AT, 8) if header.kind == HEADER else NO_LIMIT
        if (body_len and not reader.take(&body)) or body.size != body_len or body.kind != BODY:
            reader.position = begin
            return False
        if self.find_channel(method.channel):
            passing = self.taker.deliver(self.giver, method, &header, &body)
        if passing == Passing.AS_IT_IS:
            if self.whole_size == 0:
                self.whole = method.payload - FRAME_HEADER
            self.whole_size = reader.buffer.data + reader.position - self.whole
        else:
            self.hand_on()
            if passing == Passing.ANEW:
                self.taker.pass_on(method, &header, &body)
        return True


cdef class ShardChannelBase:
    """What the compiled part of a ShardChannel knows: one channel in one shard."""

    def __init__(self, ShardConnectionBase shard_connection not None, uint16_t number) -> None:
        self.shard_connection = shard_connection
        self.number = number
        self.names = MessageNames()
        self.sent = Sent()
        self.consumers = {}
        self.named = None, b""

    cdef bint find_consumer(self, const uint8_t* tag, uint32_t tag_len) except -1:
        """Whether a consumer of the client has this tag; then `consumer`, and what it asked for, is that one."""
        cdef bytes given
        if self.consumer is not None and PyBytes_GET_SIZE(self.given) == tag_len and memcmp(
            PyBytes_AS_STRING(self.given), tag, tag_len
        ) == 0:
            return True
        given = tag[:tag_len]
        self.tag = given.decode("utf-8", "surrogateescape")
        self.given, self.consumer = given, self.consumers.get(self.tag)
        if self.consumer is None:
            return False
        self.no_ack, self.reading = self.consumer.method.no_ack, self.consumer.reading
        return True

    cdef bint identify(self, uint64_t inner, Name* name) except -1:
        """Whether a shard of this node knows which message a delivery is; `name` is good until the next call."""
        cdef FrameSession shard = self.shard_connection.direct
        cdef ChannelTraffic target = None
        cdef Py_ssize_t index
        cdef Held held
        if self.shard_connection.entered and self.turn == self.shard_connection.turn:
            target = self.target
        elif shard is not None:
            target = shard.channels.get(self.number)
        index = -1 if target is None else target.unacked.find(inner)
        held = None if index < 0 else target.unacked.identify(index, name.record)
        if held is None:
            return False
        if self.named[0] is not held.queue:
            self.named = held.queue, short((<Queue>held.queue).name)
        name.queue = <PyObject*>self.named[1]
        return True


cdef class ProxyRoute(ChannelRoute):
    """Where the messages of one exchange and routing key go, as long as nothing changes: shards, and what they take."""

    def __init__(self, queues: list[Queue], bint plain, shard_ids: list[str]) -> None:
        ChannelRoute.__init__(self, queues, plain and len(queues) > 0)
        self.shard_ids = shard_ids
        limits = [queue.policy.max_message_bytes for queue in queues]
        self.bytes_max = min([limit for limit in limits if limit is not None], default=NO_LIMIT)


cdef class Relay(ChannelTraffic):
    """The compiled part of a ProxyChannel, which has `shard_channel_in(shard_id)`, this channel in a shard, and `trace_wire`."""

    def __cinit__(self):
        self.tags = Tags()
        self.confirms = Confirms()
        self.shard_channels = {}

    cdef int send(self, ChannelRoute route, const uint8_t* header, const uint8_t* body, Scan* found) except -1:
        """Hand a message that needs no further look to the shards of its queues."""
        cdef ProxyRoute way = <ProxyRoute?>route
        cdef ShardChannelBase shard_channel
        cdef ShardConnectionBase shard_connection
        cdef ChannelTraffic target
        # One of several shards must not send back what another one has.
        cdef uint8_t bits = self.bits & MANDATORY if len(way.shard_ids) == 1 else 0
        if self.body_len > way.bytes_max:
            check_sizes(way.queues, self.body_len)
        if self.sent_by is not way:
            self.sent_by = way
            self.sent_to = [self.shard_channels.get(each) or self.shard_channel_in(each) for each in way.shard_ids]
        for each in self.sent_to:
            shard_channel = <ShardChannelBase>each
            self.confirms.note(shard_channel.sent, self.published if self.confirming else 0)
            shard_connection = shard_channel.shard_connection
            target = shard_connection.reach(shard_channel)
            if target is None or shard_connection.direct.has_no_room(target):
                shard_connection.publish(self, way.wire, bits, header, body)
            else:
                shard_connection.publish_in(target, self, way.wire, bits, header, body, found)
        return 0

    def forget_way(self) -> None:
        """A shard is not where it was: look for the shards of the next publish again."""
        self.sent_by = None

    cdef int confirm_sent(self, Sent sent, uint64_t inner, bint multiple, bint safe) except -1:
        """A shard has said what became of a publish, or of all up to it."""
        self.tell(self.confirms.heard(sent, inner, multiple, safe))
        self.check_committed()
        if self.confirms.unspoken == 0:
            self.connection.spoken()
        return 0

    def tell(self, verdicts: list[Verdict]) -> None:
        """Confirm publishes to the client; those of a transaction are confirmed by the answer to its commit."""
        cdef uint64_t number
        cdef bint multiple, safe
        for number, multiple, safe in verdicts:
            if self.transacting:
                self.partial = self.partial or not safe
            elif not self.deaf:
                self.answer(ACK_METHOD if safe else NACK_METHOD, number, multiple)
        self.outlet.changed()

    cdef int settle(self, uint64_t tag, bint multiple, uint8_t how) except -1:
        """End one delivery, or all up to this tag (0: all there are), now or at the end of the transaction."""
        cdef Py_ssize_t before = self.tags.count
        if self.transacting:
            self.settle_later(tag, multiple, how)
        else:
            self.end(tag, multiple, how)
            self.acks += before - self.tags.count if how == ACKED else 0
        return 0

    def settle_now(self, uint64_t tag, uint8_t how) -> None:
        """The same for one, whether there is a transaction or not."""
        self.end(tag, False, how)

    cdef int end(self, uint64_t tag, bint multiple, uint8_t how) except -1:
        """Tell the shards whose deliveries these are."""
        cdef Py_ssize_t index = 0 if multiple and tag == 0 else self.tags.find(tag)
        cdef ShardChannelBase shard_channel
        if multiple:
            return self.end_through(tag or self.last_tag, how)
        if not self.tags.slots[index].lost:
            shard_channel = <ShardChannelBase>self.tags.slots[index].shard_channel
            shard_channel.shard_connection.remember(shard_channel, how, self.tags.slots + index)
            shard_channel.shard_connection.settle(shard_channel, self.tags.slots[index].inner, False, how)
        self.tags.drop(index)
        return 0

    cdef int end_through(self, uint64_t tag, uint8_t how) except -1:
        """Settle all up to a tag: a shard is told of the last of its own."""
        cdef Tags tags = self.tags
        cdef ShardChannelBase shard_channel
        cdef dict last = {}
        while tags.count and tags.slots[tags.first].tag <= tag:
            if not tags.slots[tags.first].lost:
                shard_channel = <ShardChannelBase>tags.slots[tags.first].shard_channel
                last[shard_channel] = tags.slots[tags.first].inner
                shard_channel.shard_connection.remember(shard_channel, how, tags.slots + tags.first)
            tags.drop(tags.first)
        for shard_channel, inner in last.items():
            shard_channel.shard_connection.settle(shard_channel, inner, True, how)
        return 0

    # From shards

    cdef Passing deliver(self, ShardChannelBase shard_channel, Frame* method, Frame* header, Frame* body) except? Passing.DROPPED:
        """Hand a message to a consumer under a tag of this channel, which is put where that of the shard lies."""
        cdef uint64_t tag_at = CONSUMER_AT + (method.payload[CONSUMER_AT - 1] if method.size > CONSUMER_AT else 0)
        cdef uint8_t* tag = <uint8_t*>method.payload + tag_at
        cdef uint64_t inner
        cdef const Name* name
        if tag_at + TAG_AND_FLAG > method.size:
            raise ProtocolError(Reply.SYNTAX_ERROR, f"basic.deliver: {method.size} bytes")
        inner = big_endian(tag, 8)
        name = shard_channel.names.of(inner)
        if not shard_channel.find_consumer(method.payload + CONSUMER_AT, <uint32_t>(tag_at - CONSUMER_AT)):
            return Passing.DROPPED    # cancelled meanwhile; the shard gets it back with the channel
        if shard_channel.reading is not None:
            shard_channel.reading.delivered(<bytes>header.payload[:header.size])
        self.last_tag += 1
        if not shard_channel.no_ack:
            self.tags.push(self.last_tag, inner, shard_channel, shard_channel.tag, name)
        self.redeliveries += tag[8] & 1
        put_tag(tag, self.last_tag)
        if self.firehose.on:
            self.trace_wire(
                shard_channel.consumer.method.queue, tag[8] & 1, <bytes>method.payload[tag_at + 9:method.size],
                <bytes>header.payload[:header.size] + <bytes>body.payload[:body.size], header.size,
            )
        return Passing.AS_IT_IS if body.size + OVERHEAD <= self.outlet.frame_max else Passing.ANEW

    cdef int pass_on(self, Frame* method, Frame* header, Frame* body) except -1:
        """Write a delivery in frames that the client takes."""
        cdef uint64_t position = 0, piece
        self.outlet.put(METHOD, self.number, method.payload, method.size)
        self.outlet.put(HEADER, self.number, header.payload, header.size)
        while position < body.size:
            piece = min(body.size - position, <uint64_t>(self.outlet.frame_max - OVERHEAD))
            self.outlet.put(BODY, self.number, body.payload + position, piece)
            position += piece
        return self.outlet.changed()

    def deliver_late(self, ShardChannelBase shard_channel not None, bytes method not None, bytes content not None, uint32_t header_len) -> None:
        """The same for a message that came in pieces."""
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(content)
        cdef Frame whole = Frame(METHOD, self.number, <const uint8_t*>PyBytes_AS_STRING(method), <uint32_t>len(method))
        cdef Frame header = Frame(HEADER, self.number, data, header_len)
        cdef Frame body = Frame(BODY, self.number, data + header_len, <uint32_t>(len(content) - header_len))
        shard_channel.consumer = None
        if self.deliver(shard_channel, &whole, &header, &body) != Passing.DROPPED:
            self.pass_on(&whole, &header, &body)

    def got(self, ShardChannelBase shard_channel not None, uint64_t inner, bint redelivered, bint no_ack) -> int:
        """The tag under which the client gets a message that it has asked for."""
        cdef const Name* name = shard_channel.names.of(inner)
        self.gets += 1
        self.redeliveries += redelivered
        self.last_tag += 1
        if not no_ack:
            self.tags.push(self.last_tag, inner, shard_channel, "", name)
        return self.last_tag


cdef void put_method(uint8_t* data, uint32_t method) noexcept:
    cdef int i
    for i in range(4):
        data[i] = <uint8_t>(method >> (24 - 8 * i))
