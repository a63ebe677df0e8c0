"""A consumer on a channel: every message that a queue pushes becomes a basic.deliver."""

from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memcpy

from leveret.protocols.amqp.traffic cimport is_redelivered, put_tag
from leveret.core.held cimport Held

cdef enum:
    TAG_AND_FLAG = 9


cdef class Subscriber(Consumer):
    """Pushes into the outlet of its connection, as long as that and the limits of its channel allow."""

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
