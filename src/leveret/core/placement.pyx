"""Putting messages where they were: no limits, no expiry, no consumers; for replay, checkpoints and compaction."""

from leveret.core.held cimport BACKING_OFF, GIVEN_BACK, HELD_DEAD_MS, SCHEDULED, new_held
from leveret.core.ports cimport DELAYED
from leveret.core.ready cimport Fifo

cdef enum:
    LANE_DELIVERIES_MAX = 254       # a cell counts no further


cdef class Placement:
    """The places of messages in queues while a broker is restored or its log is compacted."""

    def __init__(self, Engine engine not None) -> None:
        self.engine = engine
        self.groups = {}

    cdef int enter_again(self, Queue queue, Held held) except -1:
        """Put a message, that a queue without rules had, where it belongs; they come in the order of their numbers."""
        cdef Entry* entry = &held.entry
        entry.expiry_ms = queue.expires_at(entry.expiry_ms, entry.enqueued_ms)
        entry.priority = min(entry.priority, queue.max_priority)
        if not queue.grouped:
            held.group = 0
        elif held.group:
            self.groups[queue.id, entry.seq] = held.group
        if held.ready_ms == entry.enqueued_ms:
            held.ready_ms += queue.delay_ms
        if held.state == BACKING_OFF:
            return self.restore_held(queue, held, held.when_ms)
        if held.ready_ms > entry.enqueued_ms:
            return queue.schedule(new_held(queue, entry, held.ready_ms, held.group), held.ready_ms)
        if entry.deliveries > LANE_DELIVERIES_MAX:
            return self.put_back(queue, entry, held.ready_ms, held.group)
        return queue.wait(entry, held.group)

    cdef int put_back(self, Queue queue, Entry* entry, uint64_t ready_ms, uint64_t group) except -1:
        """Let a message wait at its place, though later ones are there already."""
        cdef Held held = new_held(queue, entry, ready_ms, group)
        held.state = SCHEDULED
        queue.scheduled += 1
        queue.hold(held)
        return queue.reappear(held)

    cdef Held pick(self, Queue queue, uint64_t seq):
        """Take a message out of its queue, wherever it is; None when it is not there."""
        cdef Entry entry
        cdef uint64_t group = self.groups.pop((queue.id, seq), 0) if queue.grouped else 0
        cdef Held held = None if queue.held is None else queue.held.pop(seq, None)
        cdef int priority
        if held is not None:
            if held.state == GIVEN_BACK:
                queue.ready.take_back(held)
            elif held.slot:
                self.engine.timers.remove(held)
            if held.state == SCHEDULED:
                queue.scheduled -= 1
            elif held.state == BACKING_OFF and held.group:
                queue.ready.release(held)
            return held
        if queue.ready is None:
            return None
        for priority in range(len(queue.ready.levels) if group == 0 else 1):
            if queue.ready.remove(seq, priority, group, &entry):
                return new_held(queue, &entry, entry.enqueued_ms, group)
        return None

    cdef bint look_up(self, Queue queue, uint64_t seq, Entry* entry) except -1:
        """Find a waiting message in the lanes of a queue."""
        cdef uint64_t group = self.groups.get((queue.id, seq), 0) if queue.grouped else 0
        cdef int priority
        if queue.ready is None:
            return False
        for priority in range(len(queue.ready.levels) if group == 0 else 1):
            if queue.ready.find(seq, priority, group, entry):
                return True
        return False

    cdef int redelivered(self, Queue queue, uint64_t seq, uint32_t deliveries) except -1:
        """Note how often a message has been delivered; one that is not there is no error."""
        cdef Entry entry
        cdef Held held = None if queue.held is None else queue.held.get(seq)
        if held is not None:
            held.entry.deliveries = deliveries
        elif self.look_up(queue, seq, &entry):
            entry.deliveries = deliveries
            if deliveries > LANE_DELIVERIES_MAX or not self.rewrite(queue, &entry):
                held = self.pick(queue, seq)
                held.entry.deliveries = deliveries
                self.put_back(queue, &held.entry, held.ready_ms, held.group)
        return 0

    cdef bint rewrite(self, Queue queue, Entry* entry) except -1:
        """Change a waiting message where it stands; False when its cell has no room for that."""
        cdef uint64_t group = self.groups.get((queue.id, entry.seq), 0) if queue.grouped else 0
        cdef Fifo fifo = queue.ready.fifo(entry.priority, group)
        return fifo.lane.replace(entry)

    cdef int restore_held(self, Queue queue, Held held, uint64_t due_ms) except -1:
        """Let a message back off until a time; its group waits for it, but not if it is a dead letter."""
        if due_ms >= HELD_DEAD_MS:
            held.group = 0
        if held.group:
            self.groups[queue.id, held.entry.seq] = held.group
            if queue.ready is None:
                queue.configure_ready()
            queue.ready.occupy(queue.ready.group(held.group), held)
        held.state = BACKING_OFF
        held.when_ms = due_ms
        queue.hold(held)
        return 0 if due_ms >= HELD_DEAD_MS else self.engine.timers.add(held)

    cdef int settle_down(
        self, Queue queue, Held held, uint64_t seq, uint8_t priority, uint64_t group, Place* place
    ) except -1:
        """Note the new place of a record, and journal again what the old segment knew of its deliveries."""
        cdef Entry entry
        if held is None:
            queue.ready.find(seq, priority, group, &entry)
            entry.place = place[0]
            if not queue.ready.fifo(priority, group).lane.replace(&entry):
                queue.ready.remove(seq, priority, group, &entry)
                entry.place = place[0]
                self.put_back(queue, &entry, entry.enqueued_ms, group)
        else:
            held.entry.place = place[0]
            entry = held.entry
        if entry.deliveries:
            self.engine.journal.delivered(queue.id, &entry, 0, 0)
        if held is not None and held.state == BACKING_OFF:
            self.engine.journal.returned(queue.id, &entry, DELAYED, held.when_ms, 0, 0)
        return 0
