from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.protocols.amqp.frames cimport Frame, FrameReader, FrameWriter
from leveret.protocols.amqp.session cimport FrameSession
from leveret.protocols.amqp.traffic cimport ChannelRoute, ChannelTraffic
from leveret.cluster.proxy.confirms cimport Confirms, Sent
from leveret.cluster.proxy.names cimport Name, MessageNames
from leveret.cluster.proxy.tags cimport Tags

cdef class ShardConnectionBase:
    cdef readonly FrameSession connection
    cdef readonly FrameReader reader
    cdef readonly FrameWriter writer
    cdef readonly dict shard_channels         # by number
    cdef readonly dict closing          # numbers of channels that the shard has not closed yet: how often
    cdef readonly MessageNames unsure          # settlements, which are lost with the shard until they are durable
    cdef public uint64_t last_mark
    cdef public bint noted              # the connection knows that there is something to send
    cdef int changed(self) except -1
    cdef int publish(self, Relay channel, bytes route, uint8_t bits, const uint8_t* header, const uint8_t* body) except -1
    cdef int settle(self, uint16_t number, uint64_t tag, bint multiple, uint8_t how) except -1
    cdef int remember(self, uint8_t how, const Name* name) except -1
    cdef bint deliver(self, Frame* method) except -1

cdef class ShardChannelBase:
    cdef readonly ShardConnectionBase shard_connection
    cdef readonly uint16_t number
    cdef readonly MessageNames names           # of deliveries that are about to come
    cdef readonly Sent sent
    cdef public dict consumers          # by tag
    cdef const Name* name_of(self, uint64_t tag) noexcept

cdef class ProxyRoute(ChannelRoute):
    cdef list shard_ids                     # the shards
    cdef uint64_t bytes_max             # the largest body that all queues take

cdef class Relay(ChannelTraffic):
    cdef readonly Tags tags
    cdef readonly Confirms confirms
    cdef public dict shard_channels           # by shard
    cdef int end(self, uint64_t tag, bint multiple, uint8_t how) except -1
    cdef int end_through(self, uint64_t tag, uint8_t how) except -1
    cdef int deliver(self, ShardChannelBase shard_channel, Frame* method, Frame* header, Frame* body) except -1
    cdef int pass_on(self, Frame* method, uint64_t tag_at, Frame* header, Frame* body) except -1
