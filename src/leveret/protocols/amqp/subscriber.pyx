"""A consumer on a channel: every message that a queue pushes becomes a basic.deliver.

A consumer of a stream reads from its own place, as many records as it has credit for:

    basic.deliver   as of a queue
    header          as it was published, with two more entries at the end of its headers:
                    | x-stream-offset | l | u64 |    and, of a stream with several partitions, | x-stream-partition | l | u64 |

A record is copied from the block that it was read in to the output of the connection: there is no object for it, and
one stands in the list of what is not acknowledged for all that this consumer was given.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.wire.frames cimport BODY, HEADER, METHOD, Outlet, frame_start, room
from leveret.protocols.amqp.traffic cimport ChannelTraffic, is_redelivered, put_tag
from leveret.core.consumer cimport Consumer
from leveret.core.held cimport READING, Held, new_held
from leveret.core.ports cimport Entry, Record
from leveret.core.queue cimport Queue
from leveret.core.streams cimport StreamCursor
from leveret.core.tables cimport big_endian

from leveret.core.message import restored

cdef enum:
    FLAGS_AT = 12               # in a content header
    PROPERTIES_AT = 14
    HAS_CONTENT_TYPE = 0x80     # in the first byte of the flags
    HAS_CONTENT_ENCODING = 0x40
    HAS_HEADERS = 0x20
    FRAME_OVERHEAD = 8
    TAG_AND_FLAG = 9            # the end of the prefix of a delivery
    NUMBER_BYTES = 8
    OFFSET_BYTES = 25           # of the entry of the offset
    PARTITION_BYTES = 28        # of the entry of the partition

cdef const char* OFFSET_ENTRY = b"\x0fx-stream-offsetl"
cdef const char* PARTITION_ENTRY = b"\x12x-stream-partitionl"


cdef class Subscriber(Consumer):
    """Pushes into the outlet of its connection, as long as that and the limits of its channel allow."""

    cdef readonly ChannelTraffic channel
    cdef readonly uint64_t timeout_ms       # for settling what it was given; 0: that of its queue
    cdef uint8_t prefix[4 + 256 + 8 + 1]    # of basic.deliver: only the delivery tag and the flag after it change
    cdef uint32_t prefix_len

    def __init__(
        self, ChannelTraffic channel not None, str tag, *, uint32_t prefetch=0, int64_t priority=0, bint exclusive=False,
        bint no_ack=False, str name=None, uint64_t timeout_ms=0,
    ) -> None:
        cdef bytes encoded = tag.encode("utf-8", "surrogateescape")
        cdef uint32_t size = <uint32_t>len(encoded)
        assert size <= 255, "a consumer tag is a short string"
        Consumer.__init__(
            self, tag, prefetch=prefetch, priority=priority, exclusive=exclusive, no_ack=no_ack, name=name
        )
        self.opens = self.timed = False
        self.channel = channel
        self.timeout_ms = timeout_ms
        self.prefix[0], self.prefix[1], self.prefix[2], self.prefix[3] = 0, 60, 0, 60
        self.prefix[4] = <uint8_t>size
        memcpy(self.prefix + 5, <const char*>encoded, size)
        self.prefix_len = 5 + size + TAG_AND_FLAG

    cdef bint can_take(self) noexcept:
        """See Consumer; the channel may have a limit of its own, and the socket may be slow."""
        return Consumer.can_take(self) and not self.channel.saturated() and not self.channel.outlet.full()

    cpdef bint ready_for(self, Held held) except -1:
        """See Consumer: the body is fetched first, and others get their messages meanwhile."""
        if self.channel.has_body(held):
            return True
        self.channel.fetch_for(self, held)
        return False

    cpdef deliver(self, Held held):
        cdef ChannelTraffic channel = self.channel
        cdef uint64_t tag = channel.last_tag + 1
        put_tag(self.prefix + self.prefix_len - TAG_AND_FLAG, tag)
        self.prefix[self.prefix_len - 1] = is_redelivered(held)
        channel.write(held, self.prefix, self.prefix_len, NULL)
        channel.last_tag = tag
        if not self.no_ack:
            channel.unacked.push(tag, held)
            channel.pushed += 1
            if channel.prefetch:
                channel.latest = self
        if channel.firehose.on:
            channel.trace_delivery(self.queue.name, is_redelivered(held), channel.publisher.engine.journal.read(&held.entry))

    cpdef cancelled(self):
        """See Consumer: the client hears of it."""
        self.channel.subscriber_cancelled(self)


cdef class StreamSubscriber(Subscriber):
    """Reads one partition of a stream, or all of them in turn."""

    cdef readonly list cursors  # type: list[StreamCursor]  # of each partition that it reads
    cdef Py_ssize_t turn                    # the one that is read now
    cdef Held ticket                        # stands for all that is not acknowledged
    cdef uint8_t entries[25 + 28]           # that each record gets beside its own headers
    cdef uint32_t entries_len

    def __init__(
        self, ChannelTraffic channel not None, str tag, cursors: Sequence[StreamCursor], *, bint partitioned=False,
        uint32_t prefetch=0, bint exclusive=False, str name=None,
    ) -> None:
        Subscriber.__init__(self, channel, tag, prefetch=prefetch, exclusive=exclusive, name=name)
        self.cursors = cursors
        self.prefix[self.prefix_len - 1] = 0
        self.entries_len = OFFSET_BYTES
        memcpy(self.entries, OFFSET_ENTRY, OFFSET_BYTES - NUMBER_BYTES)
        if partitioned:
            memcpy(self.entries + OFFSET_BYTES, PARTITION_ENTRY, PARTITION_BYTES - NUMBER_BYTES)
            self.entries_len += PARTITION_BYTES

    @property
    def offset(self) -> int:
        """The offset of the record that comes next, in the partition that is behind the most."""
        return min([(<StreamCursor>cursor).offset for cursor in self.cursors], default=0)

    cpdef int pull(self) except -1:
        cdef Record record
        cdef StreamCursor cursor
        cdef int pulled = 0
        cdef Py_ssize_t empty = 0, count = len(self.cursors)
        if self.ticket is None and count:
            self.ticket = self.new_ticket()
        while empty < count and self.can_take():
            cursor = <StreamCursor>self.cursors[self.turn]
            if cursor.find(&record):
                self.write(&record, cursor)
                traced = copied(&record) if self.channel.firehose.on else None
                cursor.passed()
                if traced is not None:
                    self.channel.trace_delivery(self.queue.name, False, traced)
                pulled += 1
                empty = 0
                continue
            empty += 1
            self.turn = (self.turn + 1) % count
            job = cursor.missing()
            if job is not None:
                self.channel.fetch_records(cursor, job)
        if pulled:
            self.channel.outlet.changed()
        return pulled

    cdef Held new_ticket(self):
        """What stands for every record that is not acknowledged."""
        cdef Entry entry
        cdef Held ticket
        entry.seq = entry.enqueued_ms = entry.expiry_ms = 0
        entry.place.segment = entry.place.offset = entry.place.size = 0
        entry.deliveries = entry.overhead = entry.priority = entry.flags = 0
        ticket = new_held(<Queue>self.queue, &entry, 0, 0)
        ticket.state = READING
        ticket.consumer = self
        return ticket

    cdef int write(self, Record* record, StreamCursor cursor) except -1:
        """Write a delivery."""
        cdef ChannelTraffic channel = self.channel
        cdef Outlet outlet = channel.outlet
        cdef uint64_t tag = channel.last_tag + 1
        cdef uint64_t position = record.header_len, piece
        cdef uint32_t size = self.prefix_len + record.route_len
        cdef uint8_t* data = room(&outlet.buffer, size + FRAME_OVERHEAD)
        put_tag(self.prefix + self.prefix_len - TAG_AND_FLAG, tag)
        frame_start(data, METHOD, channel.number, size)
        memcpy(data + 7, self.prefix, self.prefix_len)
        memcpy(data + 7 + self.prefix_len, record.route, record.route_len)
        data[7 + size] = 0xCE
        put_tag(self.entries + OFFSET_BYTES - NUMBER_BYTES, cursor.offset)
        if self.entries_len > OFFSET_BYTES:
            put_tag(self.entries + self.entries_len - NUMBER_BYTES, cursor.partition)
        self.write_header(record)
        while position < record.content_len:
            piece = min(record.content_len - position, <uint64_t>(outlet.frame_max - FRAME_OVERHEAD))
            outlet.put(BODY, channel.number, record.content + position, piece)
            position += piece
        channel.unacked.push(tag, self.ticket)
        channel.last_tag = tag
        channel.pushed += 1
        self.unacked += 1
        return 0

    cdef int write_header(self, Record* record) except -1:
        """Write the content header with more entries in its table of headers."""
        cdef const uint8_t* header = record.content
        cdef uint8_t flags = header[FLAGS_AT]
        cdef uint32_t at = PROPERTIES_AT, table, table_at, size, i
        cdef uint8_t* data
        if flags & HAS_CONTENT_TYPE and at < record.header_len:
            at += 1 + header[at]
        if flags & HAS_CONTENT_ENCODING and at < record.header_len:
            at += 1 + header[at]
        table = 0
        table_at = at
        if flags & HAS_HEADERS and at + 4 <= record.header_len:
            table = <uint32_t>big_endian(header + at, 4)
            table_at += 4
        if table_at > record.header_len or table > record.header_len - table_at:
            # What was published has been checked: whatever this is, it is passed on as it is.
            return self.channel.outlet.put(HEADER, self.channel.number, header, record.header_len)
        size = at + 4 + table + self.entries_len + (record.header_len - table_at - table)
        data = room(&self.channel.outlet.buffer, size + FRAME_OVERHEAD)
        frame_start(data, HEADER, self.channel.number, size)
        data[7 + size] = 0xCE
        data += 7
        memcpy(data, header, at)
        data[FLAGS_AT] = flags | HAS_HEADERS
        data += at
        for i in range(4):
            data[i] = <uint8_t>((table + self.entries_len) >> (24 - 8 * i))
        data += 4
        memcpy(data, header + table_at, table)
        memcpy(data + table, self.entries, self.entries_len)
        memcpy(data + table + self.entries_len, header + table_at + table, record.header_len - table_at - table)
        return 0

    def close(self) -> None:
        """Read no more, and let go of files; what was given can still be acknowledged."""
        for cursor in self.cursors:
            cursor.close()
        self.cursors = []
        self.ticket = None


cdef object copied(Record* record):
    """The message of a record, for the firehose."""
    return restored(
        <bytes>record.route[:record.route_len], <bytes>record.content[:record.content_len], record.header_len
    )
