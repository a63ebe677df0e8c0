"""A queue: messages that wait, messages that are held, and the rules between them.

Everything that a queue has is either in a lane of `ready` or in `held` (scheduled, backing off, given back, leased).
Time comes from the engine, which every verb advances first.
"""

from leveret.core.dedup import Dedup
from leveret.core.errors import InvalidReceipt, NotSupported
from leveret.core.expiries cimport new_expiries
from leveret.core.held cimport BACKING_OFF, DONE, GIVEN_BACK, LEASED, SCHEDULED, new_held
from leveret.core.histogram cimport note, note_priority
from leveret.core.message cimport BLOB, TRACED
from leveret.core.ports cimport ACKED, APPENDED, DELIVERY_LIMIT, EXPIRED, MAXLEN, NACKED, REJECTED, RETIRED, TIMED_OUT

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF
ORDERED = frozenset(("fifo", "fifo-batch"))    # kinds of groups that wait while one of their messages is held


cdef class Queue(Holder):
    """One queue of one virtual host."""

    def __init__(
        self, Engine engine not None, uint32_t id, str vhost, str name, policy: "QueuePolicy",
        arguments: Mapping[str, Any] | None = None, *, bint durable=True, bint auto_delete=False, owner=None,
    ) -> None:
        self.engine = engine
        self.id, self.own_id = id, [id]
        self.vhost, self.name = vhost, name
        encoded = name.encode("utf-8", "surrogateescape")
        self.route = b"\x00" + bytes([len(encoded)]) + encoded
        self.arguments = arguments
        self.durable, self.auto_delete, self.owner = durable, auto_delete, owner
        self.used_ms = engine.now_ms
        self.apply(policy)

    def change(self, arguments: Mapping[str, Any] | None, policy: "QueuePolicy") -> None:
        self.arguments = arguments
        self.apply(policy)

    def apply(self, policy: "QueuePolicy") -> None:
        self.policy = policy
        self.ttl_ms = NEVER if policy.message_ttl_ms is None else policy.message_ttl_ms
        self.retention_ms = NEVER if policy.retention_ms is None else policy.retention_ms
        self.expires_ms, self.delay_ms = policy.expires_ms or 0, policy.delay_ms or 0
        self.max_length = NEVER if policy.max_length is None else policy.max_length
        # Old records of a stream go by whole segments, and none is refused.
        bounded = policy.max_length_bytes is not None and policy.queue_type != "stream"
        self.max_bytes = policy.max_length_bytes if bounded else NEVER
        self.max_deliveries = min(policy.max_deliveries or 0, 0xFFFFFFFF)  # no message is delivered more often
        self.max_priority, self.consumer_timeout_ms = policy.max_priority, policy.consumer_timeout_ms or 0
        self.single_active, self.is_quorum = policy.single_active_consumer, policy.queue_type == "quorum"
        self.grouped, self.batches = policy.groups != "off", policy.groups == "fifo-batch"
        self.drops_head = policy.overflow == "drop-head" and (self.max_length != NEVER or self.max_bytes != NEVER)
        self.limited = policy.max_message_bytes is not None or (
            policy.overflow != "drop-head" and (self.max_length != NEVER or self.max_bytes != NEVER)
        )
        if self.ready is not None:
            self.configure_ready()
        if self.expires_ms:
            self.wake(self.used_ms + self.expires_ms)

    def configure_ready(self) -> None:
        """Tell `ready` how to choose."""
        if self.ready is None:
            self.ready = Ready.__new__(Ready)
        if self.waiting is None:
            self.waiting, self.processing = Histogram.__new__(Histogram), Histogram.__new__(Histogram)
        self.ready.configure(self.policy.priority_mode, self.policy.priority_ageing_ms, self.policy.groups in ORDERED)

    # Entering

    cdef uint64_t expires_at(self, uint64_t wanted_ms, uint64_t now_ms, uint64_t due_ms) noexcept:
        """When a message that is published now expires here (0: never); it lives at least for this millisecond.

        A time to live counts from now, retention from when the message is due.
        """
        cdef uint64_t end = NEVER if self.ttl_ms == NEVER else now_ms + self.ttl_ms
        if self.retention_ms != NEVER:
            end = min(end, max(now_ms, due_ms or now_ms + self.delay_ms) + self.retention_ms)
        if wanted_ms and wanted_ms < end:
            end = wanted_ms
        return 0 if end == NEVER else max(end, now_ms + 1)

    cdef int enter(self, Entry* entry, uint64_t due_ms, uint64_t group) except -1:
        """A message arrives: it waits its turn, or until it is due."""
        self.counters.published += 1
        if self.max_priority:
            self.published_by = note_priority(self.published_by, entry.priority, self.max_priority)
        self.has_blobs = self.has_blobs or entry.flags & BLOB
        if due_ms == 0 and self.delay_ms:
            due_ms = entry.enqueued_ms + self.delay_ms
        if due_ms > self.engine.now_ms:
            return self.schedule(new_held(self, entry, due_ms, group if self.grouped else 0), due_ms)
        self.wait(entry, group if self.grouped else 0)
        self.trim()
        return self.signal()

    cdef int record(self, Content* content) except -1:
        """A message arrives at a stream; it is there to be read when it is durable."""
        cdef uint32_t size = <uint32_t>min(content.body_len, <uint64_t>0xFFFFFFFF)
        self.counters.published += 1
        self.engine.journal.noted(APPENDED, 0, self.id, self.counters.published, self.engine.now_ms, size, 0)
        return self.recorder.record(content, self.engine.now_ms)

    cdef int schedule(self, Held held, uint64_t due_ms) except -1:
        """Hide a new message until it is due."""
        held.state = SCHEDULED
        held.when_ms = due_ms
        self.scheduled += 1
        self.hold(held)
        return self.engine.timers.add(held)

    cdef int wait(self, Entry* entry, uint64_t group) except -1:
        """Put a new message into its lane."""
        if self.ready is None:
            self.configure_ready()
        if entry.expiry_ms:
            self.wake(entry.expiry_ms)
            self.expiries.watch(entry, group, self.ready, self.held)
        return self.ready.push(entry, group)

    cdef int wake(self, uint64_t when_ms) except -1:
        """Look at this queue at a time, or earlier."""
        if self.expiries is None:
            self.expiries = new_expiries(self, self.engine, self.id)
        return self.expiries.wake(when_ms)

    cdef uint8_t expiry_reason(self, Held held) noexcept:
        """Why an expired message goes: past the queue's retention it is dropped, otherwise dead-lettered."""
        cdef bint over = self.retention_ms != NEVER and held.entry.expiry_ms >= held.entry.enqueued_ms + self.retention_ms
        return RETIRED if over else EXPIRED

    cdef int hold(self, Held held) except -1:
        self.held = {} if self.held is None else self.held
        self.held[held.entry.seq] = held
        return 0

    cdef int trim(self) except -1:
        """Drop from the head what is over the length; a queue that rejects instead never drops what it took."""
        cdef Held held
        if self.consumers and self.overflows():
            self.engine.callbacks.push(self)
        while self.overflows():
            held = self.ready.oldest_of_least(self)
            if held is None:
                return 0
            self.hold(held)
            self.engine.callbacks.dead(self, held, MAXLEN)
        return 0

    cdef bint overflows(self) noexcept:
        return self.drops_head and (self.ready.length > self.max_length or self.ready.bytes > self.max_bytes)

    def enforce(self) -> None:
        """Drop what a lowered limit no longer allows."""
        if self.ready is not None:
            self.trim()

    def would_overflow(self, uint64_t size) -> bool:
        """Whether one more body of this size is over the limits."""
        if self.ready is None:
            return self.dlx >= self.max_length or self.dlx_bytes + size > self.max_bytes
        size += self.ready.bytes + self.dlx_bytes
        return self.ready.length + self.dlx + 1 > self.max_length or size > self.max_bytes

    def duplicate_of(self, bytes key) -> int | None:
        """The message that brought this de-duplication key within the window."""
        return None if self.dedup is None else self.dedup.seen(key, self.engine.now_ms, self.policy.dedup_window_ms)

    def remember(self, bytes key, uint64_t seq, uint64_t at_ms, uint32_t segment) -> None:
        if self.dedup is None:
            self.dedup = Dedup()
        self.dedup.add(key, seq, at_ms, segment)

    cdef int signal(self) except -1:
        """Tell the engine that there is something to take, if anybody listens."""
        if (self.watched or self.consumers) and not self.dirty:
            self.dirty = True
            self.engine.dirty.append(self)
        return 0

    def grown(self) -> None:
        """There is more to read in a stream."""
        self.signal()

    # Taking

    cdef Held next(self, uint64_t group=0):
        """The next message that is neither expired nor delivered too often, out of its lane; or None.

        With a group: of that one, of which the caller holds messages already.
        """
        cdef Held held
        if self.paused or self.ready is None:
            return None
        while True:
            held = self.ready.take_more(self, group) if group else self.ready.take(self, self.engine.now_ms)
            if held is None:
                return None
            if held.entry.expiry_ms and held.entry.expiry_ms <= self.engine.now_ms:
                self.hold(held)
                self.engine.callbacks.dead(self, held, self.expiry_reason(held))
            elif self.max_deliveries and held.entry.deliveries >= self.max_deliveries:
                self.hold(held)
                self.engine.callbacks.dead(self, held, DELIVERY_LIMIT)
            else:
                return held

    def take(
        self, uint32_t count, lease_ms: int | None = None, consumer=None, uint64_t bytes_max=0,
        large_bytes: Callable[[bytes], int] | None = None,
    ) -> list[Held]:
        """Lease up to `count` messages; without `lease_ms` as long as the queue's policy says.

        With `bytes_max`, those after the first only as far as all together have no more; of a body that is kept
        elsewhere `large_bytes` says the size by its pointer.
        """
        cdef uint64_t term, group = 0, total = 0
        cdef Held held
        cdef list taken = []
        if self.recorder is not None:
            raise NotSupported(f"'{self.name}' is a stream, from which nothing is taken: read it from an offset on")
        if lease_ms is None:
            lease_ms = self.policy.lease_ms
        term = 0 if lease_ms is None else lease_ms
        self.use()
        while len(taken) < count:
            held = self.next(group)
            if held is None and group:
                group = 0
                continue
            if held is None:
                break
            self.open_held(held)
            if bytes_max:
                total += large_bytes(held.content.body) if held.entry.flags & BLOB else held.entry.place.size
                if taken and total > bytes_max:
                    held.content = None
                    self.put_back(held)
                    break
            group = held.group if self.batches else 0
            self.lease(held, self.engine.now_ms + term if lease_ms is not None else 0, consumer)
            taken.append(held)
        return taken

    cdef int open_held(self, Held held) except -1:
        """Fetch the message of a taken entry; if that fails it waits again, and the caller hears why."""
        try:
            held.content = self.engine.journal.read(&held.entry)
        except BaseException:
            self.put_back(held)
            raise
        return 0

    cdef int put_back(self, Held held) except -1:
        """What `next` gave is not handed out after all."""
        self.hold(held)
        return self.reappear(held)

    cdef int lease(self, Held held, uint64_t until_ms, object consumer) except -1:
        """Hand a message out until a time (0: for ever)."""
        cdef Engine engine = self.engine
        if held.state != GIVEN_BACK:
            self.hold(held)
        held.state = LEASED
        engine.last_lease += 1
        held.lease = engine.last_lease
        held.delivered_ms = engine.now_ms
        if held.first_delivered_ms == 0:
            held.first_delivered_ms = engine.now_ms
        held.consumer = consumer
        if held.entry.deliveries:
            self.counters.redelivered += 1
        else:
            note(self.waiting, engine.now_ms - min(engine.now_ms, held.ready_ms))
        held.entry.deliveries += 1
        self.counters.delivered += 1
        self.leased += 1
        if until_ms:
            held.when_ms = until_ms
            engine.timers.add(held)
        if held.entry.place.segment or engine.journal.history:
            engine.journal.delivered(self.id, &held.entry, engine.now_ms, self.consumer_id(consumer))
        if held.entry.flags & TRACED and engine.tracer is not None:
            engine.tracer.tell_delivered(self, held, engine.journal)
        return 0

    cdef uint32_t consumer_id(self, object consumer) except? 0:
        """The number of a consumer, or of the name of one, in the journal; 0: none."""
        if consumer is None:
            return 0
        return (<Consumer>consumer).id if isinstance(consumer, Consumer) else self.engine.consumer_number(consumer)

    # Ending a lease

    def leased_as(self, Held held not None, uint64_t lease) -> Held:
        """Check that this delivery still holds the message."""
        if held.state != LEASED or held.lease != lease:
            raise InvalidReceipt(
                f"the lease on message {held.entry.seq} of queue '{self.name}' has ended: it was settled already, or its "
                "visibility timeout passed and it went back to the queue; receive it again, or ask for a longer timeout"
            )
        return held

    def has_held(self, uint64_t seq) -> bool:
        """Whether a message that was handed out, or delayed, is still here."""
        return self.held is not None and seq in self.held

    def find_lease(self, uint64_t seq, uint64_t lease) -> Held:
        """The delivery that a receipt names."""
        cdef Held held = None if self.held is None else self.held.get(seq)
        if held is None:
            raise InvalidReceipt(
                f"message {seq} of queue '{self.name}' is not leased: it was settled already or went back to the queue"
            )
        return self.leased_as(held, lease)

    def ack(self, Held held not None, uint64_t lease) -> None:
        self.leased_as(held, lease)
        self.counters.acked += 1
        self.settle(held, ACKED)

    def reject(self, Held held not None, uint64_t lease) -> None:
        """The consumer will never want this message: dead-letter it."""
        self.leased_as(held, lease)
        self.engine.callbacks.dead(self, held, REJECTED)

    def nack(self, Held held not None, uint64_t lease, uint64_t delay_ms, uint8_t how=NACKED) -> None:
        """The consumer failed: the message comes back after a delay, or is dead-lettered at the limit."""
        self.leased_as(held, lease)
        self.counters.nacked += 1
        self.give_back(held, how, self.engine.now_ms + delay_ms if delay_ms else 0)

    def extend(self, Held held not None, uint64_t lease, uint64_t lease_ms) -> None:
        """Hold a message for so long from now on."""
        self.leased_as(held, lease)
        if held.slot:
            self.engine.timers.remove(held)
        held.when_ms = self.engine.now_ms + lease_ms
        self.engine.timers.add(held)

    def renew(self, uint64_t seq, uint64_t lease, uint64_t lease_ms) -> bool:
        """Hold a message again whose lease has ended, if it still waits; it is no further delivery."""
        cdef Held held = None if self.held is None else self.held.get(seq)
        if held is None or held.state != GIVEN_BACK:
            return False
        self.remove(seq, held.entry.priority, held.group)
        held.state = LEASED
        held.lease = lease
        self.leased += 1
        held.when_ms = self.engine.now_ms + lease_ms
        self.engine.timers.add(held)
        return True

    cdef int end_lease(self, Held held) except -1:
        """Common to every way in which a lease ends."""
        if held.slot:
            self.engine.timers.remove(held)
        if held.state == LEASED:
            self.leased -= 1
            if held.consumer is not None and isinstance(held.consumer, Consumer):
                (<Consumer>held.consumer).unacked -= 1
                if self.ready.length:
                    self.signal()
        elif held.state == SCHEDULED:
            self.scheduled -= 1
        held.content = None
        return 0

    cdef int settle(self, Held held, uint8_t how) except -1:
        """A held message leaves the queue for good."""
        cdef Engine engine = self.engine
        cdef bint busy = held.group != 0 and held.state != SCHEDULED
        cdef uint64_t held_ms = engine.now_ms - held.delivered_ms if held.state == LEASED else 0
        if held.entry.flags & TRACED and engine.tracer is not None:
            engine.tracer.tell_ended(self, held, engine.journal, how, True)
        if held.entry.flags & BLOB:
            engine.drop_blob(engine.journal.read(&held.entry) if held.content is None else held.content)
        if held.entry.place.segment or engine.journal.history:
            engine.journal.settled(
                self.id, &held.entry, how, engine.now_ms, <uint32_t>min(held_ms, <uint64_t>0xFFFFFFFF),
                self.consumer_id(held.consumer),
            )
        else:
            engine.journal.uncache(held.entry.seq)
        if held.state == LEASED:
            note(self.processing, held_ms)
        self.end_lease(held)
        held.state = DONE
        held.consumer = None
        self.held.pop(held.entry.seq, None)
        if busy:
            self.ready.release(held)
            if self.ready.length:
                self.signal()
        return 0

    cdef int give_back(self, Held held, uint8_t how, uint64_t due_ms) except -1:
        """A leased message was not settled: back to its place, unless it has had its chances, or its TTL of 0 its delivery."""
        cdef Engine engine = self.engine
        cdef uint64_t held_ms = min(engine.now_ms - held.delivered_ms, <uint64_t>0xFFFFFFFF)
        if self.max_deliveries and held.entry.deliveries >= self.max_deliveries:
            return engine.callbacks.dead(self, held, DELIVERY_LIMIT)
        if held.entry.expiry_ms and held.entry.expiry_ms <= max(engine.now_ms, held.entry.enqueued_ms + 1):
            return engine.callbacks.dead(self, held, self.expiry_reason(held))
        if held.entry.flags & TRACED and engine.tracer is not None:
            engine.tracer.tell_ended(self, held, engine.journal, how, False)
        if held.entry.place.segment or engine.journal.history:
            engine.journal.returned(
                self.id, &held.entry, how, engine.now_ms, due_ms, <uint32_t>held_ms, self.consumer_id(held.consumer)
            )
        self.end_lease(held)
        held.lease = 0
        held.consumer = None
        if due_ms > engine.now_ms:
            held.state = BACKING_OFF
            held.when_ms = due_ms
            return engine.timers.add(held)
        return self.reappear(held)

    cdef int reappear(self, Held held) except -1:
        cdef bint busy = held.group != 0 and held.state != SCHEDULED
        if held.state == SCHEDULED:
            self.scheduled -= 1
        if self.ready is None:
            self.configure_ready()
        if held.entry.expiry_ms:
            self.wake(held.entry.expiry_ms)
            self.expiries.note(&held.entry, held.group, self.ready, self.held)
        self.ready.give_back(held)
        if busy:
            self.ready.release(held)
        return self.signal()

    cdef int due(self, Held held, uint64_t now_ms) except -1:
        cdef bint enters = held.state == SCHEDULED      # what only comes back pushes no other message out
        if held.state == LEASED:
            self.counters.timed_out += 1
            return self.give_back(held, TIMED_OUT, 0)
        self.reappear(held)
        return self.trim() if enters else 0

    cdef Held remove(self, uint64_t seq, uint8_t priority, uint64_t group):
        """Take a ready message out, wherever it stands; None when it is not there."""
        cdef Entry entry
        cdef Held held = None if self.held is None else self.held.get(seq)
        if held is not None:
            if held.state != GIVEN_BACK:
                return None
            self.ready.take_back(held)
            held.group = 0      # its group does not wait for it
        elif self.ready is not None and self.ready.remove(seq, priority, group, &entry):
            held = new_held(self, &entry, entry.enqueued_ms, 0)
            self.hold(held)
        return held

    # Coming, going, looking

    def retire(self) -> None:
        """The queue was deleted: nothing may wake it."""
        self.deleted = True
        if self.expiries is not None:
            self.expiries.stop()
        for held in (self.held or {}).values():
            if (<Held>held).slot and (<Held>held).state != GIVEN_BACK:
                self.engine.timers.remove(<Held>held)
        self.held = self.ready = self.expiries = None

    cpdef use(self):
        """The queue is used: an expiring queue lives on."""
        self.used_ms = self.engine.now_ms

    @property
    def depth(self) -> int:
        """Messages that wait to be taken, or that can be read from a stream."""
        if self.recorder is not None:
            return self.recorder.length
        return 0 if self.ready is None else self.ready.length

    @property
    def depth_bytes(self) -> int:
        """Bytes of the bodies that wait to be taken; of all that a stream holds."""
        if self.recorder is not None:
            return self.recorder.size_bytes
        return 0 if self.ready is None else self.ready.bytes

    @property
    def backing_off(self) -> int:
        """Messages that come back after a failed delivery."""
        return 0 if self.held is None else sum(1 for held in self.held.values() if held.state == BACKING_OFF) - self.dlx

    @property
    def counts(self) -> dict[str, int]:
        """What happened here since the broker started."""
        return self.counters

    def pause(self, bint paused=True) -> None:
        self.paused = paused
        if not paused and self.depth:
            self.signal()
