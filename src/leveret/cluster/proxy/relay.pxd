from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.wire.frames cimport Frame, FrameReader, FrameWriter
from leveret.protocols.amqp.session cimport FrameSession
from leveret.protocols.amqp.traffic cimport ChannelRoute, ChannelTraffic
from leveret.core.properties cimport Scan
from leveret.cluster.proxy.confirms cimport Confirms, Sent
from leveret.cluster.proxy.tags cimport Delivery, MessageNames, Name, Tags

cdef enum Passing:
    DROPPED                     # the client has cancelled the consumer
    AS_IT_IS                    # in the frames of the shard, with the tag of the client
    ANEW                        # in frames that the client takes

cdef class ShardConnectionBase:
    cdef readonly FrameSession connection  # type: ProxyConnection
    cdef readonly FrameReader reader
    cdef readonly FrameWriter writer
    cdef readonly dict shard_channels  # type: dict[int, Any]  # by number
    cdef readonly dict closing  # type: dict[int, int]  # of channels that the shard has not closed yet: how often
    cdef readonly MessageNames unsure          # settlements, which are lost with the shard until they are durable
    cdef public uint64_t last_mark
    cdef public bint noted              # the connection knows that there is something to send
    cdef public FrameSession direct  # type: FrameSession | None  # the other end, if the shard is here and attached
    cdef public bint entered            # the lock of the shard is held
    cdef uint64_t turn                  # in which it is, or was held last
    # What is being received.
    cdef ShardChannelBase giver
    cdef Relay taker
    cdef const uint8_t* whole           # deliveries that the client gets as they are
    cdef uint64_t whole_size
    cdef ChannelTraffic reach(self, ShardChannelBase shard_channel)
    cdef int publish_in(self, ChannelTraffic target, Relay channel, bytes route, uint8_t bits, const uint8_t* header,
                        const uint8_t* body, Scan* found) except -1
    cdef int settle_in(self, ChannelTraffic target, uint64_t tag, bint multiple, uint8_t how) except -1
    cdef int changed(self) except -1
    cdef int publish(self, Relay channel, bytes route, uint8_t bits, const uint8_t* header, const uint8_t* body) except -1
    cdef int settle(self, ShardChannelBase shard_channel, uint64_t tag, bint multiple, uint8_t how) except -1
    cdef int remember(self, ShardChannelBase shard_channel, uint8_t how, Delivery* settled) except -1
    cdef int read(self) except -1
    cdef int hand_over(self, FrameReader reader) except -1
    cdef int hand_on(self) except -1
    cdef bint find_channel(self, uint16_t number) except -1
    cdef bint confirm(self, Frame* method) except -1
    cdef bint deliver(self, FrameReader reader, Frame* method) except -1

cdef class ShardChannelBase:
    cdef readonly ShardConnectionBase shard_connection
    cdef readonly uint16_t number
    cdef readonly MessageNames names           # of deliveries that are about to come
    cdef readonly Sent sent
    cdef public dict consumers  # type: dict[str, Any]  # by tag
    # The consumer of the last delivery, and what it asked for.
    cdef object consumer
    cdef bytes given                    # its tag as it came
    cdef str tag
    cdef bint no_ack
    cdef object reading
    # In a shard of this node.
    cdef ChannelTraffic target          # the channel there, in this turn of the connection
    cdef uint64_t turn
    cdef tuple named                    # a queue, and its name as a short string
    cdef bint find_consumer(self, const uint8_t* tag, uint32_t tag_len) except -1
    cdef bint identify(self, uint64_t inner, Name* name) except -1

cdef class ProxyRoute(ChannelRoute):
    cdef list shard_ids                     # the shards
    cdef uint64_t bytes_max             # the largest body that all queues take

cdef class Relay(ChannelTraffic):
    cdef readonly Tags tags
    cdef readonly Confirms confirms
    cdef public dict shard_channels  # type: dict[str, Any]  # by shard
    cdef int end(self, uint64_t tag, bint multiple, uint8_t how) except -1
    cdef int end_through(self, uint64_t tag, uint8_t how) except -1
    cdef public bint partial            # a shard refused a publish of the transaction that is committed
    cdef ProxyRoute sent_by             # the way of the last publish
    cdef list sent_to                   # and its channels in the shards
    cdef int confirm_sent(self, Sent sent, uint64_t inner, bint multiple, bint safe) except -1
    cdef Passing deliver(self, ShardChannelBase shard_channel, Frame* method, Frame* header, Frame* body) except? Passing.DROPPED
    cdef int pass_on(self, Frame* method, Frame* header, Frame* body) except -1
