"""Messages of a client on their way to shards and back: what is done for each of them, compiled.

    client -> Relay.send, Relay.settle -> ShardConnectionBase -> shard          a Relay is a channel of the client, a ShardConnectionBase its
    client <- Relay.deliver <- ShardConnectionBase.receive <- shard             connection to a shard, a ShardChannelBase a channel there

What is unusual goes through ProxyChannel, ShardConnection and ShardChannel, whose compiled parts these are.
"""

from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.protocols.amqp.frames cimport BODY, FRAME_MAX_MAX, HEADER, METHOD
from leveret.protocols.amqp.traffic cimport put_tag
from leveret.core.properties cimport Scan
from leveret.core.tables cimport big_endian
from leveret.cluster.proxy.names cimport Entry

from leveret.protocols.amqp.publishing import check_sizes
from leveret.protocols.amqp.replies import ProtocolError, Reply

cdef enum:
    CHANNEL_MAX = 65_535
    UNSURE_MAX = 100_000        # the oldest ones are forgotten: if the shard loses them their messages come again
    PUBLISH = 0x003C0028
    DELIVER = 0x003C003C
    ACK = 0x003C0050
    NACK = 0x003C0078
    ACKED = 0                   # how a delivery is settled, as in leveret.protocols.amqp.transaction
    REQUEUED = 1
    REQUEUE = 2                 # in the bits of basic.nack
    MANDATORY = 1
    SETTLEMENT_BYTES = 13
    ROUTE_AT = 6                # in basic.publish, drawn in leveret/protocols/amqp/traffic.pyx
    PUBLISH_BYTES_MAX = 519
    BODY_SIZE_AT = 4            # in a content header
    CONSUMER_AT = 5             # in basic.deliver
    TAG_AND_FLAG = 9
    OVERHEAD = 8

cdef uint64_t NO_LIMIT = 0xFFFFFFFFFFFFFFFF


cdef class ShardConnectionBase:
    """The compiled part of a Backend, which has `on_frame(kind, number, payload)` for frames that are no such message."""

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

    # Out

    def method(self, uint16_t number, bytes payload not None) -> None:
        """Send a method."""
        self.writer.method(number, payload)
        self.changed()

    def content(self, uint16_t number, bytes method not None, bytes content not None, uint32_t header_len) -> None:
        """Send a method with content."""
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

    cdef int settle(self, uint16_t number, uint64_t tag, bint multiple, uint8_t how) except -1:
        """Tell the shard what became of a delivery, or of all up to it."""
        cdef uint8_t method[SETTLEMENT_BYTES]
        put_method(method, ACK if how == ACKED else NACK)
        put_tag(method + 4, tag)
        method[12] = multiple | (REQUEUE if how == REQUEUED else 0)
        self.writer.put(METHOD, number, method, SETTLEMENT_BYTES)
        return self.changed()

    cdef int remember(self, uint8_t how, const Name* name) except -1:
        """Until the shard has a settlement on its disks, its next owner may have to be told."""
        if name.queue != NULL:
            self.unsure.push(self.last_mark + 1, how, name)
            if self.unsure.end - self.unsure.first > UNSURE_MAX:
                self.unsure.drop()
        return 0

    # In

    def receive(self, bytes data not None) -> None:
        """Frames came from the shard."""
        cdef Frame frame
        self.reader.feed(data)
        while self.reader.take(&frame):
            if frame.kind != METHOD or not self.deliver(&frame):
                self.on_frame(frame.kind, frame.channel, <bytes>frame.payload[:frame.size])

    cdef bint deliver(self, Frame* method) except -1:
        """Hand a message to its channel, if it is one that is delivered and is here whole."""
        cdef uint64_t begin = self.reader.position
        cdef Frame header, body = Frame(BODY, method.channel, NULL, 0)
        cdef uint64_t body_len
        if big_endian(method.payload, 4) != DELIVER or not self.reader.take(&header):
            return False
        body_len = big_endian(header.payload + BODY_SIZE_AT, 8) if header.kind == HEADER else NO_LIMIT
        if (body_len and not self.reader.take(&body)) or body.size != body_len or body.kind != BODY:
            self.reader.position = begin
            return False
        shard_channel = self.shard_channels.get(method.channel)
        channel = self.connection.channels.get(method.channel)
        if shard_channel is not None and channel is not None and method.channel not in self.closing:
            (<Relay?>channel).deliver(<ShardChannelBase?>shard_channel, method, &header, &body)
        return True


cdef class ShardChannelBase:
    """What the compiled part of a ShardChannel knows: one channel in one shard."""

    def __init__(self, ShardConnectionBase shard_connection not None, uint16_t number) -> None:
        self.shard_connection = shard_connection
        self.number = number
        self.names = MessageNames()
        self.sent = Sent()
        self.consumers = {}

    cdef const Name* name_of(self, uint64_t tag) noexcept:
        """Which message a delivery is that has come, good until the next look; NULL: unknown."""
        cdef Entry* oldest = self.names.oldest()
        while oldest != NULL and oldest.number < tag:
            self.names.drop()
            oldest = self.names.oldest()
        return &oldest.name if oldest != NULL and oldest.number == tag else NULL


cdef class ProxyRoute(ChannelRoute):
    """Where the messages of one exchange and routing key go, as long as nothing changes: shards, and what they take."""

    def __init__(self, list queues not None, bint plain, list shard_ids not None) -> None:
        ChannelRoute.__init__(self, queues, plain and len(queues) > 0)
        self.shard_ids = shard_ids
        limits = [queue.policy.max_message_bytes for queue in queues]
        self.bytes_max = min([limit for limit in limits if limit is not None], default=NO_LIMIT)


cdef class Relay(ChannelTraffic):
    """The compiled part of a FrontChannel, which has `shard_channel_in(home)`, this channel in a shard, and `trace_wire`."""

    def __cinit__(self):
        self.tags = Tags()
        self.confirms = Confirms()
        self.shard_channels = {}

    cdef int send(self, ChannelRoute route, const uint8_t* header, const uint8_t* body, Scan* found) except -1:
        """Hand a message that needs no further look to the shards of its queues."""
        cdef ProxyRoute way = <ProxyRoute?>route
        cdef ShardChannelBase shard_channel
        # One of several shards must not send back what another one has.
        cdef uint8_t bits = self.bits & MANDATORY if len(way.shard_ids) == 1 else 0
        if self.body_len > way.bytes_max:
            check_sizes(way.queues, self.body_len)
        for shard_id in way.shard_ids:
            shard_channel = self.shard_channels.get(shard_id)
            if shard_channel is None:
                shard_channel = self.shard_channel_in(shard_id)
            self.confirms.note(shard_channel.sent, self.published if self.confirming else 0)
            shard_channel.shard_connection.publish(self, way.wire, bits, header, body)
        return 0

    cdef int settle(self, uint64_t tag, bint multiple, uint8_t how) except -1:
        """End one delivery, or all up to this tag (0: all there are), now or at the end of the transaction."""
        cdef Py_ssize_t before = self.tags.count
        if self.transacting:
            self.settle_later(tag, multiple, how)
        else:
            self.end(tag, multiple, how)
            self.acks += before - self.tags.count if how == ACKED else 0
        return 0

    def settle_now(self, uint64_t tag, bint multiple, uint8_t how) -> None:
        """The same, whether there is a transaction or not."""
        self.end(tag, multiple, how)

    cdef int end(self, uint64_t tag, bint multiple, uint8_t how) except -1:
        """Tell the shards whose deliveries these are."""
        cdef Py_ssize_t index = 0 if multiple and tag == 0 else self.tags.find(tag)
        cdef ShardChannelBase shard_channel
        if multiple:
            return self.end_through(tag or self.last_tag, how)
        if not self.tags.slots[index].lost:
            shard_channel = <ShardChannelBase>self.tags.slots[index].shard_channel
            shard_channel.shard_connection.settle(self.number, self.tags.slots[index].inner, False, how)
            shard_channel.shard_connection.remember(how, &self.tags.slots[index].name)
        self.tags.drop(index)
        return 0

    cdef int end_through(self, uint64_t tag, uint8_t how) except -1:
        """Settle all up to a tag: a shard is told of the last of its own."""
        cdef Tags tags = self.tags
        cdef dict last = {}
        while tags.count and tags.slots[tags.first].tag <= tag:
            if not tags.slots[tags.first].lost:
                shard_channel = <ShardChannelBase>tags.slots[tags.first].shard_channel
                last[shard_channel] = tags.slots[tags.first].inner
                (<ShardChannelBase>shard_channel).shard_connection.remember(how, &tags.slots[tags.first].name)
            tags.drop(tags.first)
        for shard_channel, inner in last.items():
            (<ShardChannelBase>shard_channel).shard_connection.settle(self.number, inner, True, how)
        return 0

    # From shards

    cdef int deliver(self, ShardChannelBase shard_channel, Frame* method, Frame* header, Frame* body) except -1:
        """Hand a message to a consumer under a tag of this channel."""
        cdef uint64_t tag_at = CONSUMER_AT + (method.payload[CONSUMER_AT - 1] if method.size > CONSUMER_AT else 0)
        cdef uint64_t inner
        cdef const Name* name
        if tag_at + TAG_AND_FLAG > method.size:
            raise ProtocolError(Reply.SYNTAX_ERROR, f"basic.deliver: {method.size} bytes")
        inner = big_endian(method.payload + tag_at, 8)
        name = shard_channel.name_of(inner)
        tag = method.payload[CONSUMER_AT:tag_at].decode("utf-8", "surrogateescape")
        consumer = shard_channel.consumers.get(tag)
        if consumer is None:
            return 0    # cancelled meanwhile; the shard gets it back with the channel
        if consumer.reading is not None:
            consumer.reading.delivered(<bytes>header.payload[:header.size])
        self.last_tag += 1
        if not consumer.method.no_ack:
            self.tags.push(self.last_tag, inner, shard_channel, tag, name)
        self.redeliveries += method.payload[tag_at + 8] & 1
        self.pass_on(method, tag_at, header, body)
        if self.firehose.on:
            self.trace_wire(
                consumer.method.queue, method.payload[tag_at + 8] & 1, <bytes>method.payload[tag_at + 9:method.size],
                <bytes>header.payload[:header.size] + <bytes>body.payload[:body.size], header.size,
            )
        return 0

    cdef int pass_on(self, Frame* method, uint64_t tag_at, Frame* header, Frame* body) except -1:
        """Write a delivery under its tag, in frames that the client takes."""
        cdef uint64_t position = 0, piece
        self.outlet.put(METHOD, self.number, method.payload, method.size)
        put_tag(self.outlet.buffer.data + self.outlet.buffer.size - 1 - method.size + tag_at, self.last_tag)
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
        self.deliver(shard_channel, &whole, &header, &body)

    def got(self, ShardChannelBase shard_channel not None, uint64_t inner, bint redelivered, bint no_ack) -> int:
        """The tag under which the client gets a message that it has asked for."""
        cdef const Name* name = shard_channel.name_of(inner)
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
