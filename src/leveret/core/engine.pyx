"""What all queues of a broker share: sequence numbers, time, the time index and the journal."""

from leveret.core.ports cimport REFUSED
from leveret.core.timers cimport Timer

cdef enum:
    BUDGET = 10_000                 # a million messages due at once must not stop everything else
    CONSUMERS_NAMED_MAX = 65_536    # names are kept for ever, and clients choose them


cdef class QueueCallbacks:
    """What a queue asks of its broker. `dead_lettering.Callbacks` implements it."""

    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1:
        """Settle a message for this reason, and dead-letter it if the queue asks for that."""
        raise NotImplementedError

    cdef int overflowed(self, Holder queue, Message message) except -1:
        """Dead-letter a message that a full queue refused."""
        raise NotImplementedError

    cdef int push(self, Holder queue) except -1:
        """Deliver what consumers of a queue can take now: only the rest can be over its limits."""
        raise NotImplementedError

    cdef int expire(self, Holder queue) except -1:
        """Remove what has expired in a queue, or the queue itself."""
        raise NotImplementedError

    cdef int unused(self, Holder queue) except -1:
        """Delete a queue that expired, or whose last consumer left."""
        raise NotImplementedError


cdef class Engine:
    """The running parts under every operation of leveret.core.broker.Broker."""

    def __init__(self, Journal journal not None, uint64_t tag=0) -> None:
        self.journal = journal
        self.tag = tag
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

    cpdef int refused(self, uint8_t how, uint64_t size, str exchange=None, uint32_t queue=0) except -1:
        """Note for history a publish that no queue, or not this one, took; `exchange` is where it came to."""
        if self.journal.history:
            number = 0 if exchange is None else self.consumer_number(exchange)
            self.journal.noted(REFUSED, how, queue, 0, self.now_ms, <uint32_t>min(size, <uint64_t>0xFFFFFFFF), number)
        return 0

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

    def take_dirty(self) -> list[Queue]:
        """The watched queues that got something since the last call."""
        cdef list dirty = self.dirty
        if dirty:
            self.dirty = []
            for queue in dirty:
                (<Holder>queue).dirty = False
        return dirty

    def consumer_number(self, str name) -> int:
        """The number by which the journal knows a consumer; 0 when there are too many to name."""
        number = self.consumer_ids.get(name)
        if number is None:
            if len(self.consumer_ids) >= CONSUMERS_NAMED_MAX:
                return 0
            number = self.consumer_ids[name] = len(self.consumer_ids) + 1
            self.name_consumer(name, number)
        return number
