"""Publishing: from a message to the queues that take it.

Outcomes are values: 0 is "no queue took it". Refusals that the publisher must hear of are exceptions.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.dedup import stored
from leveret.core.errors import DiskFull, MessageTooLarge, QueueFull
from leveret.core.filters import GROUP_HEADER
from leveret.core.message cimport BLOB, PERSISTENT, TRACED, new_message
from leveret.core.ports cimport FULL, FULL_DEAD_LETTERED, NO_ROOM, TOO_LARGE, Entry, message_of, parts_of
from leveret.core.properties cimport make_content

cdef enum:
    OVERHEAD_MAX = 0xFFFF
cdef uint64_t FNV_OFFSET = 14695981039346656037U
cdef uint64_t FNV_PRIME = 1099511628211U


def group_key(str group not None) -> int:
    """The number of a message group: stable, never 0. Two groups that meet only share their turn."""
    cdef uint64_t hashed = FNV_OFFSET
    cdef uint8_t each
    for each in group.encode():
        hashed = (hashed ^ each) * FNV_PRIME
    return hashed or 1


def group_of(headers: dict[str, Any]) -> int:
    """The number of the group that a header names; 0: none."""
    group = headers.get(GROUP_HEADER)
    return group_key(group) if isinstance(group, str) else 0


def route_of(str exchange not None, str routing_key not None) -> bytes:
    """Exchange and routing key as on the wire."""
    first = exchange.encode("utf-8", "surrogateescape")
    second = routing_key.encode("utf-8", "surrogateescape")
    return bytes([len(first)]) + first + bytes([len(second)]) + second


cdef class Publisher:
    """Puts messages into queues."""

    def __init__(self, Engine engine not None) -> None:
        self.engine = engine

    def send(
        self, Queue queue not None, bytes content not None, uint32_t header_len, *, uint8_t priority=0,
        bint persistent=True, uint64_t expiry_ms=0, uint64_t due_ms=0, uint64_t group=0, bytes key=None,
    ) -> int:
        """Publish one message straight to a queue; give its number, or that of the one which it duplicates."""
        cdef uint8_t flags = PERSISTENT if persistent else 0
        cdef Message message = new_message(
            queue.route, content, header_len, priority, flags, expiry_ms, due_ms, group
        )
        seq = self.offer(message, [queue], key)
        if seq == 0:
            raise full(queue)
        return seq

    def send_many(
        self, Queue queue not None, bytes header not None, bodies: list[bytes], *, uint8_t priority=0,
        bint persistent=True, uint64_t expiry_ms=0, uint64_t due_ms=0, uint64_t group=0,
    ) -> list[int]:
        """Publish many bodies with the same properties (`header` is their content header); 0 stands for a refused one."""
        cdef uint8_t flags = PERSISTENT if queue.is_quorum or (persistent and queue.durable) else 0
        cdef list queues = [queue], numbers = []
        cdef uint32_t header_len = <uint32_t>len(header)
        cdef Message message
        cdef bytes body
        self.check_room(queues, flags)
        for body in bodies:
            message = new_message(
                queue.route, make_content(header, <const char*>body, len(body)), header_len, priority, flags, expiry_ms,
                due_ms, group,
            )
            numbers.append(self.offer(message, queues, None) if queue.limited else self.place(message, queues))
        return numbers

    def publish(
        self, queues: list[Queue], bytes route not None, bytes content not None, uint32_t header_len, *,
        uint8_t priority=0, bint persistent=True, bint blob=False, uint64_t expiry_ms=0, uint64_t due_ms=0,
        uint64_t group=0, bytes key=None,
    ) -> int:
        """Publish to the queues that an exchange gave; 0 when one of them refused or there was none."""
        cdef uint8_t flags = (PERSISTENT if persistent else 0) | (BLOB if blob else 0)
        if not queues:
            return 0
        return self.offer(
            new_message(route, content, header_len, priority, flags, expiry_ms, due_ms, group), queues, key
        )

    cdef uint64_t offer(self, Message message, list queues, bytes key) except? 0:
        """Give a message to those of the queues that take it; 0 when one of them is full."""
        cdef Queue queue
        cdef list accepted = []
        cdef bint refused = False
        cdef uint64_t seq = 0
        self.check_room(queues, message.flags)
        for queue in queues:
            if queue.limited:
                if too_large(queue, message):
                    self.engine.refused(TOO_LARGE, body_bytes(message), None, queue.id)
                check_size(queue, message)
            if queue.limited and self.refuses(queue, message):
                refused = True
                continue
            if key is not None:
                original = queue.duplicate_of(key)
                if original is not None:
                    seq = original
                    continue
            accepted.append(queue)
        if accepted:
            seq = self.put(message, accepted)
            if key is not None:
                key = stored(key)
                for queue in accepted:
                    segment = self.engine.journal.deduplicated(queue.id, key, seq, self.engine.now_ms) if queue.durable else 0
                    queue.remember(key, seq, self.engine.now_ms, segment)
        return 0 if refused else seq

    cdef int check_room(self, list queues, uint8_t flags) except -1:
        """Refuse what would be journaled when the disk is nearly full. Dead letters do not ask: they free their room."""
        cdef Queue queue
        if self.engine.journal.full:
            for queue in queues:
                if queue.recorder is not None or queue.is_quorum or (flags & PERSISTENT and queue.durable):
                    self.engine.refused(NO_ROOM, 0, None, queue.id)
                    raise DiskFull(
                        "the disk is nearly full: free space, or let consumers work; acknowledgements are taken"
                    )
        return 0

    cdef bint refuses(self, Queue queue, Message message) except -1:
        if queue.policy.overflow == "drop-head" or not queue.would_overflow(body_bytes(message)):
            return False
        if queue.consumers:
            self.engine.callbacks.push(queue)
            if not queue.would_overflow(body_bytes(message)):
                return False
        queue.counters.refused += 1
        dead_lettered = queue.policy.overflow == "reject-publish-dlx"
        self.engine.refused(FULL_DEAD_LETTERED if dead_lettered else FULL, body_bytes(message), None, queue.id)
        if dead_lettered:
            self.engine.callbacks.overflowed(queue, message)
        return True

    cdef uint64_t put(self, Message message, list queues) except? 0:
        """Journal for some queues, keep in memory for the others: each kind has a record of its own.

        A quorum queue journals every message, another durable queue those that are persistent.
        """
        cdef bint persistent = message.flags & PERSISTENT
        cdef Queue queue
        cdef list journaled = [], transient = []
        for queue in queues:
            (journaled if queue.is_quorum or (persistent and queue.durable) else transient).append(queue)
        if journaled and transient:
            self.place(with_flags(message, message.flags & ~PERSISTENT), transient)
        if not journaled:
            return self.place(with_flags(message, message.flags & ~PERSISTENT) if persistent else message, transient)
        return self.place(message if persistent else with_flags(message, message.flags | PERSISTENT), journaled)

    cdef uint64_t place(self, Message message, list queues) except 0:
        """Number a message, journal it once, and put it into its queues."""
        cdef Content content
        parts_of(message, &content)
        return self.enter(&content, message, queues)

    cdef uint64_t enter(self, Content* content, Message message, list queues) except 0:
        """The same for content of which there need not be an object: `message`, or None."""
        cdef Engine engine = self.engine
        cdef Entry entry
        cdef Queue queue
        cdef Py_ssize_t rest
        if engine.tracer is not None and not content.flags & TRACED and engine.tracer.chooses(content, engine.now_ms):
            return self.enter_traced(content, message, queues)
        engine.last_seq += 1
        content.seq = entry.seq = engine.last_seq
        content.enqueued_ms = entry.enqueued_ms = engine.now_ms
        if message is not None:
            message.seq = content.seq
            message.enqueued_ms = content.enqueued_ms
        if len(queues) == 1:
            queue = <Queue>queues[0]
            if queue.recorder is not None:
                queue.record(content)
                return content.seq
            content.expiry_ms = queue.expires_at(content.expiry_ms, engine.now_ms, content.due_ms)
            engine.journal.published(content, message, queue.own_id, &entry.place)
        else:
            queues = self.record(content, queues)
            if not queues:
                return content.seq
            engine.journal.published(content, message, [(<Queue>each).id for each in queues], &entry.place)
        if message is not None:
            message.expiry_ms = content.expiry_ms
            if message.flags & BLOB:
                engine.keep_blob(message, len(queues))
        entry.deliveries = 0
        entry.flags = content.flags
        rest = entry.place.size - <Py_ssize_t>content.body_len
        entry.overhead = min(rest, OVERHEAD_MAX) if rest > 0 else 0
        for queue in queues:
            entry.expiry_ms = queue.expires_at(content.expiry_ms, engine.now_ms, content.due_ms)
            entry.priority = min(content.priority, queue.max_priority)
            queue.enter(&entry, content.due_ms, content.group)
        return content.seq

    cdef uint64_t enter_traced(self, Content* content, Message message, list queues) except 0:
        """The same for one that is traced: it is marked, and the tracer hears of it."""
        cdef Content marked
        cdef uint64_t seq
        if message is None:
            message = message_of(content)
        start_ns = self.engine.tracer.mark(message)
        parts_of(message, &marked)
        seq = self.enter(&marked, message, queues)
        self.engine.tracer.tell_published(message, queues, start_ns)
        return seq

    cdef list record(self, Content* content, list queues):
        """Give a message to those of its queues that are streams; the others are left."""
        cdef Queue queue
        cdef bint mixed = False
        for queue in queues:
            if queue.recorder is not None:
                mixed = True
                queue.record(content)
        return [queue for queue in queues if (<Queue>queue).recorder is None] if mixed else queues


cdef Message with_flags(Message message, uint8_t flags):
    """The same message with other flags, for a record of its own."""
    return new_message(
        message.route, message.content, message.header_len, message.priority, flags, message.expiry_ms, message.due_ms,
        message.group,
    )


cdef inline uint64_t body_bytes(Message message) noexcept:
    return len(message.content) - message.header_len


cdef bint too_large(Queue queue, Message message) except -1:
    most = queue.policy.max_message_bytes
    return most is not None and body_bytes(message) > most


cdef int check_size(Queue queue, Message message) except -1:
    if too_large(queue, message):
        raise MessageTooLarge(
            f"message size {body_bytes(message)} is larger than configured max size {queue.policy.max_message_bytes} of "
            f"queue '{queue.name}'"
        )
    return 0


def full(queue: Queue) -> QueueFull:
    """The refusal of a queue that is at its limit."""
    return QueueFull(
        f"queue '{queue.name}' holds {queue.depth} messages of {queue.depth_bytes} bytes, its limit: let consumers work, "
        "raise max_length, or choose overflow='drop-head'"
    )
