"""What all queues of a broker share: numbers, time, the time index and the journal."""

from leveret.core.message cimport BLOB, TRACED
from leveret.core.ports cimport Entry, message_of, parts_of
from leveret.core.queue cimport Queue
from leveret.core.timers cimport Timer

cdef enum:
    BUDGET = 10_000                 # a million messages due at once must not stop everything else
    OVERHEAD_MAX = 0xFFFF
    CONSUMERS_NAMED_MAX = 65_536    # names are kept for ever, and clients choose them


cdef class Engine(State):
    """The running parts under every verb; leveret.core.broker.Broker adds the verbs."""

    def __init__(self, Journal journal not None) -> None:
        self.journal = journal
        self.timers = Timers()
        self.dirty = []
        self.consumer_ids = {}
        self.blobs = {}
        self.released = []

    cdef uint64_t advance(self, uint64_t now_ms) noexcept:
        """Note the time; a clock that went back is ignored, so that order and expiry never do."""
        if now_ms > self.now_ms:
            self.now_ms = now_ms
        return self.now_ms

    cdef uint64_t place(self, Message message, list queues) except 0:
        """Number a message, journal it once, and put it into its queues."""
        cdef Content content
        parts_of(message, &content)
        return self.enter(&content, message, queues)

    cdef uint64_t enter(self, Content* content, Message message, list queues) except 0:
        """The same for content of which there need not be an object: `message`, or None."""
        cdef Entry entry
        cdef Queue queue
        cdef Py_ssize_t rest
        if self.tracer is not None and not content.flags & TRACED and self.tracer.chooses(content, self.now_ms):
            return self.enter_traced(content, message, queues)
        self.last_seq += 1
        content.seq = entry.seq = self.last_seq
        content.enqueued_ms = entry.enqueued_ms = self.now_ms
        if message is not None:
            message.seq = content.seq
            message.enqueued_ms = content.enqueued_ms
        if len(queues) == 1:
            queue = <Queue>queues[0]
            if queue.recorder is not None:
                queue.record(content)
                return content.seq
            content.expiry_ms = queue.expires_at(content.expiry_ms, self.now_ms)
            self.journal.published(content, message, queue.own_id, &entry.place)
        else:
            queues = self.record(content, queues)
            if not queues:
                return content.seq
            self.journal.published(content, message, [(<Queue>each).id for each in queues], &entry.place)
        if message is not None:
            message.expiry_ms = content.expiry_ms
            if message.flags & BLOB:
                self.keep_blob(message, len(queues))
        entry.deliveries = 0
        entry.flags = content.flags
        rest = entry.place.size - <Py_ssize_t>content.body_len
        entry.overhead = min(rest, OVERHEAD_MAX) if rest > 0 else 0
        for queue in queues:
            entry.expiry_ms = queue.expires_at(content.expiry_ms, self.now_ms)
            entry.priority = min(content.priority, queue.max_priority)
            queue.enter(&entry, content.due_ms, content.group)
        return content.seq

    cdef uint64_t enter_traced(self, Content* content, Message message, list queues) except 0:
        """The same for one that is traced: it is marked, and the tracer hears of it."""
        cdef Content marked
        cdef uint64_t seq
        if message is None:
            message = message_of(content)
        start_ns = self.tracer.mark(message)
        parts_of(message, &marked)
        seq = self.enter(&marked, message, queues)
        self.tracer.tell_published(message, queues, start_ns)
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

    cdef int keep_blob(self, Message message, Py_ssize_t places) except -1:
        """Count the queue places whose message has its body in the blob store."""
        pointer = message.body
        self.blobs[pointer] = self.blobs.get(pointer, 0) + places
        return 0

    cdef int drop_blob(self, Message message) except -1:
        """A queue place of such a message is gone; after the last one its blob may go."""
        pointer = message.body
        self.blobs[pointer] = self.blobs.get(pointer, 1) - 1
        if self.blobs[pointer] <= 0:
            del self.blobs[pointer]
            self.released.append(pointer)
        return 0

    def take_released(self) -> list[bytes]:
        """The pointers to blobs that no message names any more since the last call."""
        released, self.released = self.released, []
        return released

    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1:
        """A message of a queue is over for this reason: settle it, and dead-letter it if the queue asks for that."""
        raise NotImplementedError

    cdef int push(self, Holder queue) except -1:
        """Hand out what consumers of a queue can take now: only the rest of it can be too much."""
        raise NotImplementedError

    cdef int queue_expired(self, Holder queue) except -1:
        """A queue was not used for as long as it may be."""
        raise NotImplementedError

    def tick(self, uint64_t now_ms) -> bool:
        """Do what is due at this time; True when there is more of it than one tick does."""
        cdef Timer timer
        cdef uint64_t now = self.advance(now_ms)
        self.budget = BUDGET
        while self.budget > 0:
            timer = self.timers.first()
            if timer is None or timer.when_ms > now:
                return False
            self.timers.remove(timer)
            self.budget -= 1
            timer.fire(now)
        return True

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do next."""
        cdef Timer timer = self.timers.first()
        return None if timer is None else timer.when_ms

    def take_dirty(self) -> list:
        """The watched queues that got something since the last call."""
        cdef list dirty = self.dirty
        if dirty:
            self.dirty = []
            for queue in dirty:
                (<Queue>queue).dirty = False
        return dirty

    def consumer_number(self, str name) -> int:
        """The number by which the journal knows a consumer; 0 when there are too many to name."""
        number = self.consumer_ids.get(name)
        if number is None:
            if len(self.consumer_ids) >= CONSUMERS_NAMED_MAX:
                return 0
            number = self.consumer_ids[name] = len(self.consumer_ids) + 1
            self.define_consumer(name, number)
        return number

    def define_consumer(self, name: str, number: int) -> None:
        """Journal the name of a consumer."""
        raise NotImplementedError
