"""The messages of a channel: publishes that come in, confirms, deliveries that go out and how they are settled.

    basic.publish    | u32 class and method | u16 reserved | exchange | routing key | bits: 1 mandatory, 2 immediate |
    basic.deliver    | u32 class and method | consumer tag | u64 delivery tag | u8 redelivered | exchange | routing key |
    basic.get-ok     | u32 class and method | u64 delivery tag | u8 redelivered | exchange | routing key | u32 left |

Exchange and routing key lie in the journal as they came: a delivery is a copy. What a publish names is looked up by its
bytes; whatever is unusual about one is left to `publish_slowly` of leveret.protocols.amqp.channel.Channel.
"""

from bisect import bisect_right
from random import random

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp, memcpy

from leveret.wire.frames cimport BODY, HEADER, METHOD, frame_start, room
from leveret.core.engine cimport Engine
from leveret.core.held cimport LEASED, READING
from leveret.core.message cimport BLOB, PERSISTENT, REDELIVERED
from leveret.core.ports cimport ACKED, AUTO_ACKED, REJECTED, REQUEUED, TOO_LARGE, UNROUTABLE, Content, Record, message_of
from leveret.core.properties cimport ABSENT, INVALID, scan
from leveret.core.tables cimport big_endian

from leveret.wire.frames import unexpected
from leveret.wire.replies import ProtocolError, Reply
from leveret.core.tables import MalformedTable

cdef enum:
    BASIC = 60
    DELIVERY_PERSISTENT = 2
    MANDATORY = 1
    IMMEDIATE = 2
    NAMES_AT = 6            # in basic.publish
    BODY_SIZE_AT = 4        # in a content header
    ROUTES_MAX = 10_000     # routing keys are chosen by clients; a full cache is cleared
    FRAME_OVERHEAD = 8
    REPLY_TO_BYTES = 22
    ACK_METHOD = 80
    NACK_METHOD = 120
    GET_OK_METHOD = 71

cdef const char* REPLY_TO = b"\x15amq.rabbitmq.reply-to"


cdef class ChannelRoute:
    """Where the messages of one exchange and routing key go, as long as nothing changes."""

    def __init__(self, queues: list[Queue], bint plain) -> None:
        cdef Queue queue
        self.queues, self.plain = queues, plain
        self.simple = self.journaled = True
        for queue in queues:
            self.simple = self.simple and queue.durable and not queue.limited
            self.plain = self.plain and not queue.policy.content_dedup
            self.journaled = self.journaled and queue.is_quorum
            self.quorum = self.quorum or queue.is_quorum


cdef class ChannelTraffic(Gathering):
    """The compiled part of a channel. Its subclass (leveret.protocols.amqp.channel.Channel) has these methods:

        find_route             Check that the user may publish so, and say where it goes.
        publish_slowly         Publish a message that asks for something unusual, or is refused.
        settle_later           Keep a settlement for the end of the transaction; `how`: 0 acknowledged, 1 requeued, 2 rejected.
        trace_delivery         Copy a message that the client gets to the firehose.
        subscriber_cancelled   The queue of a consumer went away.
        has_body               Whether the body of a message is here, although it is not kept in the log.
        get_later              Fetch the body of a message, then do what basic.get asked for.
        fetch_for              Fetch the body of a message, then push to a consumer again.
        fetch_records          Fetch records of a stream from a slow disk, then push them.
        changed_content        Header and body of a message that is not delivered as it lies.
    """

    def __init__(
        self, Outlet outlet not None, core: leveret.core.broker.Broker, uint16_t number,
        routes: dict[bytes, ChannelRoute], uint64_t message_bytes_max, Switch firehose not None,
    ) -> None:
        self.outlet, self.core, self.publisher, self.firehose = outlet, core, core.publisher, firehose
        self.number, self.routes = number, routes
        self.message_bytes_max = message_bytes_max
        self.subscribers = {}
        self.unacked = Unacked()
        self.refused = []

    # Receiving content

    cdef int begin(self, const uint8_t* payload, uint32_t size) except -1:
        """A basic.publish came: what follows is its content."""
        cdef uint32_t first, second
        if size < NAMES_AT + 3:
            raise ProtocolError(Reply.SYNTAX_ERROR, f"basic.publish: {size} bytes")
        first = 1 + payload[NAMES_AT]
        if NAMES_AT + first + 2 > size:
            raise ProtocolError(Reply.SYNTAX_ERROR, "basic.publish: the exchange is longer than its frame")
        second = 1 + payload[NAMES_AT + first]
        if NAMES_AT + first + second + 1 != size:
            raise ProtocolError(Reply.SYNTAX_ERROR, "basic.publish: the routing key does not fit its frame")
        self.route_at = payload + NAMES_AT
        self.route_len = first + second
        self.route_kept = None
        self.bits = payload[size - 1]
        self.expects = HEADER
        return 0

    cdef int header(self, const uint8_t* payload, uint32_t size, uint64_t stamp) except -1:
        """A content header came."""
        if self.expects != HEADER:
            raise unexpected(self.expects)
        if big_endian(payload, 2) != BASIC:
            raise ProtocolError(
                Reply.UNEXPECTED_FRAME,
                f"expected content header for class {BASIC}, got one for class {big_endian(payload, 2)} instead",
            )
        self.body_len = big_endian(payload + BODY_SIZE_AT, 8)
        if self.body_len > self.message_bytes_max:
            self.expects = 0
            self.publisher.engine.refused(TOO_LARGE, self.body_len)
            raise ProtocolError(
                Reply.PRECONDITION_FAILED,
                f"message size {self.body_len} is larger than configured max size {self.message_bytes_max}",
            )
        self.header_at = payload
        self.header_len = size
        if self.body_len == 0:
            return self.complete(payload, payload, stamp)
        self.expects = BODY
        return 0

    cdef int body(self, const uint8_t* payload, uint32_t size, uint64_t stamp) except -1:
        """A piece of the body came."""
        cdef uint64_t missing
        if self.expects != BODY:
            raise unexpected(self.expects)
        if self.gathered.size == 0:
            if size == self.body_len:
                return self.complete(self.header_at, payload, stamp)
            self.gather_header()
        missing = self.header_len + self.body_len - self.gathered.size
        if size > missing:
            raise ProtocolError(
                Reply.FRAME_ERROR, f"{size} bytes of body came, {missing} of the announced {self.body_len} were missing"
            )
        self.gather(payload, size)
        if size < missing:
            return 0
        try:
            return self.complete(self.gathered.data, self.gathered.data + self.header_len, stamp)
        finally:
            self.forget()

    cdef int keep(self) except -1:
        """The buffer of the connection is about to change: keep what is still needed of it."""
        if self.expects and self.route_kept is None:
            self.route_kept = PyBytes_FromStringAndSize(<const char*>self.route_at, self.route_len)
            self.route_at = <const uint8_t*>PyBytes_AS_STRING(self.route_kept)
        if self.expects == BODY and self.gathered.size == 0:
            self.gather_header()
        return 0

    # Publishing

    cdef int complete(self, const uint8_t* header, const uint8_t* body, uint64_t stamp) except -1:
        """A whole message is here: publish it."""
        cdef Scan found
        self.expects = 0
        try:
            scan(header, self.header_len, &found)
        except MalformedTable as error:
            raise ProtocolError(Reply.SYNTAX_ERROR, f"basic.publish: {error}") from error
        return self.accept(header, body, &found, stamp)

    cdef int accept(self, const uint8_t* header, const uint8_t* body, Scan* found, uint64_t stamp) except -1:
        """Publish a message whose header was looked at."""
        cdef ChannelRoute route
        cdef bytes content
        self.publishes += 1
        if self.confirming:
            self.published += 1
        if not (
            found.special or found.expiration_ms == INVALID or self.transacting or self.bits & IMMEDIATE
            or (found.reply_to_offset and is_direct_reply(header + found.reply_to_offset))
            or self.body_len > self.large_bytes
        ):
            route = self.route(stamp)
            if route.plain and (route.queues or not self.bits & MANDATORY):
                return self.send(route, header, body, found)
        if self.in_whole:
            content = self.take_whole()
        else:
            content = PyBytes_FromStringAndSize(NULL, self.header_len + self.body_len)
            memcpy(PyBytes_AS_STRING(content), header, self.header_len)
            memcpy(PyBytes_AS_STRING(content) + self.header_len, body, self.body_len)
        exchange_len = self.route_at[0]
        self.publish_slowly(
            self.route_at[1 : 1 + exchange_len].decode("utf-8", "surrogateescape"),
            self.route_at[2 + exchange_len : self.route_len].decode("utf-8", "surrogateescape"),
            (self.bits & MANDATORY) != 0, (self.bits & IMMEDIATE) != 0, content, self.header_len,
        )
        return 0

    cdef ChannelRoute route(self, uint64_t stamp):
        """What the names of a publish lead to, remembered as long as neither topology nor permissions change."""
        cdef ChannelRoute route = self.last
        cdef bytes wire
        if (
            route is not None and route.stamp == stamp and PyBytes_GET_SIZE(route.wire) == self.route_len
            and memcmp(PyBytes_AS_STRING(route.wire), self.route_at, self.route_len) == 0
        ):
            return route
        wire = PyBytes_FromStringAndSize(<const char*>self.route_at, self.route_len)
        route = self.routes.get(wire)
        if route is None:
            route = self.find_route(
                wire[1 : 1 + wire[0]].decode("utf-8", "surrogateescape"),
                wire[2 + wire[0] :].decode("utf-8", "surrogateescape"),
            )
            route.wire = wire
            route.exchange = wire[1 : 1 + wire[0]].decode("utf-8", "surrogateescape")
            route.stamp = stamp
            if len(self.routes) >= ROUTES_MAX:
                self.routes.clear()
            self.routes[wire] = route
        self.last = route
        return route

    cdef int send(self, ChannelRoute route, const uint8_t* header, const uint8_t* body, Scan* found) except -1:
        """Publish what needs no further look."""
        cdef Publisher publisher = self.publisher
        cdef Engine engine = publisher.engine
        cdef Content content
        if not route.queues:
            self.dropped += 1
            return engine.refused(UNROUTABLE, self.body_len, route.exchange)
        content.route = <const uint8_t*>PyBytes_AS_STRING(route.wire)
        content.route_len = <uint32_t>PyBytes_GET_SIZE(route.wire)
        content.header = header
        content.header_len = self.header_len
        content.body = body
        content.body_len = self.body_len
        content.priority = found.priority
        content.flags = PERSISTENT if route.journaled or found.delivery_mode == DELIVERY_PERSISTENT else 0
        content.expiry_ms = content.due_ms = content.group = 0
        if found.expiration_ms != ABSENT:
            content.expiry_ms = engine.now_ms + max(<uint64_t>1, <uint64_t>found.expiration_ms)
        if route.simple and not engine.journal.full and (content.flags or not route.quorum):
            publisher.enter(&content, None, route.queues)
        elif publisher.offer(message_of(&content), route.queues, None) == 0 and self.confirming:
            self.refused.append(self.published)
        return 0

    def confirm(self, uint64_t through) -> None:
        """Say of all publishes up to this one that they are safe, or were refused."""
        cdef Py_ssize_t refused = bisect_right(self.refused, through)
        if self.deaf:
            return
        for tag in self.refused[:refused]:
            self.acknowledge(tag - 1)
            self.answer(NACK_METHOD, tag, False)
        del self.refused[:refused]
        self.acknowledge(through)
        self.outlet.changed()

    cdef int acknowledge(self, uint64_t through) except -1:
        """Confirm what is not, as one."""
        if through > self.confirmed:
            self.answer(ACK_METHOD, through, through > self.confirmed + 1)
        return 0

    cdef int answer(self, uint8_t method, uint64_t tag, bint multiple) except -1:
        """Write a basic.ack or basic.nack."""
        cdef uint8_t payload[13]
        payload[0], payload[1], payload[2], payload[3] = 0, BASIC, 0, method
        put_tag(payload + 4, tag)
        payload[12] = multiple
        self.confirmed = tag
        return self.outlet.put(METHOD, self.number, payload, 13)

    # Settling

    cdef int settle(self, uint64_t tag, bint multiple, uint8_t how) except -1:
        """End one delivery, or all up to this tag (0: all there are)."""
        cdef Unacked unacked = self.unacked
        cdef bint saturated = self.saturated()
        cdef Py_ssize_t index = -1
        if self.transacting:
            self.settle_later(tag, multiple, how)
            return 0
        if tag == 0 and multiple:
            if unacked.count == 0:
                return 0
            tag = self.last_tag
        else:
            index = unacked.find(tag)
            if index < 0:
                raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        if saturated:   # before the queue of the delivery signals: the next one in turn comes first
            self.resume()
        if not multiple:
            self.settle_at(index, how)
        while multiple and unacked.count and unacked.slots[unacked.first].tag <= tag:
            self.settle_at(unacked.first, how)
        return 0

    cdef int settle_at(self, Py_ssize_t index, uint8_t how) except -1:
        """End one delivery; one whose lease has ended meanwhile is not ours any more."""
        cdef uint64_t lease = 0
        cdef Held held = self.unacked.pop_at(index, &lease)
        cdef Queue queue = <Queue>held.queue
        if self.pushed and (held.consumer is not None or held.lease != lease):
            self.pushed -= 1
        if held.consumer is not None:
            (<Consumer>held.consumer).active_ms = queue.engine.now_ms
        if held.state == READING:
            return self.read_on(<Consumer>held.consumer, queue)
        if held.state != LEASED or held.lease != lease:
            return 0
        try:
            if how == ACK:
                self.acks += 1
                queue.counters.acked += 1
                queue.settle(held, ACKED)
            elif how == REJECT:
                self.publisher.engine.callbacks.dead(queue, held, REJECTED)
            else:
                self.core.nack(queue, held, lease, None, random())
        except BaseException:   # to die it has to be read: if it cannot be, no client has it any more
            queue.give_back(held, REQUEUED, 0)
            raise
        return 0

    cdef int read_on(self, Consumer consumer, Queue queue) except -1:
        """A reader of a stream is done with a record, however it puts that: it may have another one."""
        self.acks += 1
        consumer.unacked -= 1
        queue.counters.acked += 1
        return 0 if queue.deleted else queue.signal()

    def settle_now(self, uint64_t tag, uint8_t how) -> None:
        """End a delivery although the transaction is open: it is being committed."""
        cdef bint transacting = self.transacting
        self.transacting = False
        try:
            self.settle(tag, False, how)
        finally:
            self.transacting = transacting

    def requeue_all(self, keep: Collection[int] = frozenset()) -> None:
        """Give back what was delivered and not settled, but for some; one that cannot be does not hold up the others."""
        problem = None
        if self.saturated():
            self.resume()
        self.pushed = 0
        for tag, lease, held in self.unacked.take_all():
            if (<Held>held).state == READING:
                self.read_on(<Consumer>(<Held>held).consumer, <Queue>(<Held>held).queue)
            elif (<Held>held).state != LEASED or (<Held>held).lease != <uint64_t>lease:
                continue
            elif tag in keep:
                self.unacked.push(tag, held)
                self.pushed += held.consumer is not None
            else:
                try:
                    (<Queue>(<Held>held).queue).give_back(<Held>held, REQUEUED, 0)
                except Exception as error:
                    problem = error
        if problem is not None:
            raise problem

    cdef bint saturated(self) noexcept:
        """Whether the consumers of this channel have as many messages as they may have together."""
        return self.prefetch != 0 and self.pushed >= self.prefetch

    def resume(self) -> None:
        """Push to the consumers of this channel again, in turn: all queues get equal shares of its prefetch."""
        cdef list subscribers = list(self.subscribers.values())
        cdef Py_ssize_t i, first = 0, count = len(subscribers)
        for i in range(count):
            if subscribers[i] is self.latest:
                first = i + 1
        for i in range(count):
            (<Queue>subscribers[(first + i) % count].queue).signal()

    # Delivering

    @property
    def congested(self) -> bool:
        """Whether the client does not read what it is sent."""
        return self.outlet.full()

    def next_tag(self) -> int:
        """A delivery tag for a message that is not settled."""
        self.last_tag += 1
        return self.last_tag

    def get(self, Queue queue not None, bint no_ack) -> bool:
        """Send the next message of a queue as basic.get-ok, now or when its body is here; False when there is none."""
        cdef uint8_t prefix[13]
        cdef uint32_t left
        cdef Held held
        queue.use()
        held = queue.next()
        if held is None:
            return False
        if held.entry.flags & BLOB and not self.has_body(held):
            queue.put_back(held)
            self.get_later(held, no_ack)
            return True
        queue.lease(held, 0, None)
        self.last_tag += 1
        self.gets += 1
        prefix[0], prefix[1], prefix[2], prefix[3] = 0, BASIC, 0, GET_OK_METHOD
        put_tag(prefix + 4, self.last_tag)
        prefix[12] = is_redelivered(held)
        left = queue.ready.length if queue.ready is not None else 0
        self.write(held, prefix, 13, &left)
        if self.firehose.on:
            self.trace_delivery(queue.name, is_redelivered(held), self.publisher.engine.journal.read(&held.entry))
        if no_ack:
            queue.counters.taken_settled += 1
            queue.counters.acked += 1
            queue.settle(held, AUTO_ACKED)
        else:
            self.unacked.push(self.last_tag, held)
        return True

    cdef int write(self, Held held, const uint8_t* prefix, uint32_t prefix_len, uint32_t* left) except -1:
        """Write a delivery: a method whose arguments end with the route and, in get-ok, a number; then the content."""
        cdef Record record
        cdef Outlet outlet = self.outlet
        cdef uint8_t* data
        cdef uint32_t size, i
        cdef uint64_t position, piece
        cdef bytes header, body = None
        self.redeliveries += is_redelivered(held)
        self.publisher.engine.journal.locate(&held.entry, &record)
        if held.entry.flags & BLOB or (held.entry.deliveries > 1 and (<Queue>held.queue).is_quorum):
            header, body = self.changed_content(held, self.publisher.engine.journal.read(&held.entry))
            record.content = <const uint8_t*>PyBytes_AS_STRING(header)
            record.content_len = record.header_len = <uint32_t>PyBytes_GET_SIZE(header)
        size = prefix_len + record.route_len + (4 if left != NULL else 0)
        data = room(&outlet.buffer, size + FRAME_OVERHEAD)
        frame_start(data, METHOD, self.number, size)
        memcpy(data + 7, prefix, prefix_len)
        memcpy(data + 7 + prefix_len, record.route, record.route_len)
        if left != NULL:
            for i in range(4):
                data[7 + prefix_len + record.route_len + i] = <uint8_t>(left[0] >> (24 - 8 * i))
        data[7 + size] = 0xCE
        outlet.put(HEADER, self.number, record.content, record.header_len)
        position = record.header_len
        while position < record.content_len:
            piece = min(record.content_len - position, <uint64_t>(outlet.frame_max - FRAME_OVERHEAD))
            outlet.put(BODY, self.number, record.content + position, piece)
            position += piece
        if body is not None:
            outlet.put_body(self.number, body)
        return outlet.changed()


cdef bint is_redelivered(Held held) noexcept:
    return held.entry.deliveries > 1 or held.entry.flags & REDELIVERED


cdef inline bint is_direct_reply(const uint8_t* reply_to) noexcept:
    """Whether a reply-to, which was checked to be there whole, is the name that stands for this very channel."""
    return reply_to[0] == REPLY_TO_BYTES - 1 and memcmp(reply_to, REPLY_TO, REPLY_TO_BYTES) == 0


cdef void put_tag(uint8_t* data, uint64_t tag) noexcept:
    cdef int i
    for i in range(8):
        data[i] = <uint8_t>(tag >> (56 - 8 * i))


# Deliveries that were made by another owner of their queues


def take_up(ChannelTraffic channel not None, uint64_t tag, Held held not None) -> None:
    """Let a channel have a delivery; its tag is larger than all before it."""
    channel.unacked.push(tag, held)
    channel.last_tag = tag


def adopt(ChannelTraffic channel not None, Consumer consumer not None, tags: list[int]) -> None:
    """Let a consumer that goes on have what it was given; it is the active one, if one only can be and it was."""
    cdef Queue queue = <Queue>consumer.queue
    cdef Py_ssize_t index
    cdef Held held
    for tag in tags:
        index = channel.unacked.find(tag)
        held = None if index < 0 else <Held>channel.unacked.slots[index].held
        if held is None or held.state != LEASED or held.lease != channel.unacked.slots[index].lease:
            continue
        held.consumer = consumer
        consumer.unacked += 1
        channel.pushed += 1
    if queue.single_active and consumer.unacked and queue.active.unacked == 0:
        queue.active = consumer
