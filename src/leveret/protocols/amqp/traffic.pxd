cimport cython
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.protocols.amqp.gathering cimport Gathering
from leveret.wire.frames cimport Outlet
from leveret.protocols.amqp.unacked cimport Unacked
from leveret.core.consumer cimport Consumer
from leveret.core.held cimport Held
from leveret.core.properties cimport Scan
from leveret.core.publish cimport Publisher
from leveret.core.queue cimport Queue
from leveret.core.switch cimport Switch

cdef enum Settlement:
    ACK = 0
    REQUEUE = 1
    REJECT = 2

cdef class ChannelRoute:
    cdef readonly bytes wire        # exchange and routing key as they come
    cdef str exchange
    cdef readonly list queues  # type: list[Queue]
    cdef readonly bint plain        # nothing but these decides where a message goes
    cdef bint simple                # every queue is durable and takes whatever comes
    cdef bint journaled             # every queue is a quorum queue: transient messages are journaled, too
    cdef bint quorum                # one of them is: a transient message may need two records, see Publisher.put
    cdef uint64_t stamp             # of the topology and the permissions that it was found by

cdef class ChannelTraffic(Gathering):
    cdef readonly Outlet outlet
    cdef readonly object core  # type: leveret.core.broker.Broker
    cdef readonly Publisher publisher
    cdef readonly uint16_t number
    cdef public uint64_t message_bytes_max
    cdef readonly dict routes  # type: dict[bytes, ChannelRoute]  # of all channels of the connection: wire -> Route
    cdef readonly dict subscribers  # type: dict[str, Any]  # consumer tag -> Subscriber
    cdef readonly Unacked unacked
    cdef readonly uint64_t last_tag         # the delivery tag given last
    cdef public bint deaf                   # closing: nothing is heard but the answer to that
    cdef public bint transacting
    cdef public bint confirming
    cdef public uint64_t published          # since confirms were asked for
    cdef readonly uint64_t confirmed
    cdef bint noted                         # the connection knows that there is something to confirm
    cdef readonly list refused  # type: list[int]  # publishes that get a nack
    cdef public uint32_t prefetch           # for all consumers together; 0: no limit
    cdef Consumer latest                    # that got a message last, while there is such a limit
    cdef readonly uint32_t pushed           # to consumers, and not settled
    cdef readonly uint64_t publishes, acks, gets, redeliveries      # since the channel was opened
    cdef public uint64_t dropped, returned, empty_gets              # the same: of publishes without a queue, and of gets
    cdef readonly Switch firehose                   # of the virtual host
    cdef ChannelRoute last
    # The content that is being received.
    cdef uint8_t expects                    # HEADER, BODY, or 0: a method
    cdef uint8_t bits
    cdef const uint8_t* route_at
    cdef uint32_t route_len
    cdef bytes route_kept

    cdef int begin(self, const uint8_t* payload, uint32_t size) except -1
    cdef int header(self, const uint8_t* payload, uint32_t size, uint64_t stamp) except -1
    cdef int body(self, const uint8_t* payload, uint32_t size, uint64_t stamp) except -1
    cdef int keep(self) except -1
    cdef int complete(self, const uint8_t* header, const uint8_t* body, uint64_t stamp) except -1
    @cython.final  # a direct call: every publish takes it
    cdef int accept(self, const uint8_t* header, const uint8_t* body, Scan* found, uint64_t stamp) except -1
    cdef int send(self, ChannelRoute route, const uint8_t* header, const uint8_t* body, Scan* found) except -1
    cdef ChannelRoute route(self, uint64_t stamp)
    cdef int acknowledge(self, uint64_t through) except -1
    cdef int answer(self, uint8_t method, uint64_t tag, bint multiple) except -1
    cdef int settle(self, uint64_t tag, bint multiple, uint8_t how) except -1
    cdef int settle_at(self, Py_ssize_t index, uint8_t how) except -1
    cdef int read_on(self, Consumer consumer, Queue queue) except -1
    cdef bint saturated(self) noexcept
    cdef int write(self, Held held, const uint8_t* prefix, uint32_t prefix_len, uint32_t* left) except -1

cdef bint is_redelivered(Held held) noexcept
cdef void put_tag(uint8_t* data, uint64_t tag) noexcept
