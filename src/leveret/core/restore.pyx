"""How a broker comes back: replay of journal entries, checkpoints, and moving live records out of old segments.

During a replay messages are put straight to where they were: no limits, no expiry, no consumers. What was leased when the
broker stopped is simply waiting again, with its delivery count.
"""

from leveret.core import snapshots
from leveret.core.errors import DamagedJournal
from leveret.core.held cimport BACKING_OFF, GIVEN_BACK, HELD_DEAD_MS, SCHEDULED, new_held
from leveret.core.message cimport BLOB, PERSISTENT
from leveret.core.policy import QueuePolicy
from leveret.core.ports cimport CANCELLED, DELAYED, Place
from leveret.core.ready cimport Fifo, Group

cdef enum:
    LANE_DELIVERIES_MAX = 254       # a cell counts no further
    LEASES_PER_MS_BITS = 20
    LOST_SEQS_MAX = 1 << 24         # numbers that were given and are not in the journal: publishers wait long before


cdef class Restorable(Engine):
    """The part of a broker that journals talk to."""

    def __init__(self, journal) -> None:
        Engine.__init__(self, journal)
        self.queues = {}
        self.undefined = {}
        self.groups = {}

    cdef Queue queue_of(self, uint32_t id):
        """A queue by its number; its definition may come later in the log, copied forward."""
        cdef Queue queue = self.queues.get(id)
        if queue is None:
            queue = self.undefined.get(id)
        if queue is None:
            queue = self.undefined[id] = Queue(self, id, "", "", QueuePolicy(max_priority=255, groups="fair"))
        return queue

    # Replay

    cdef int replay_publish(
        self, uint32_t queue, Entry* entry, uint64_t due_ms, uint64_t group, bint moved
    ) except -1:
        cdef Queue target = self.queue_of(queue)
        cdef Held held
        self.last_seq = max(self.last_seq, entry.seq)
        self.advance(entry.enqueued_ms)
        if not moved:
            entry.expiry_ms = target.expires_at(entry.expiry_ms, entry.enqueued_ms)
            if due_ms == 0 and target.delay_ms:
                due_ms = entry.enqueued_ms + target.delay_ms
        else:           # its record says when it expires and is due; the queue may have other rules by now
            held = self.pick(target, entry.seq)
            if held is not None:
                entry.deliveries = held.entry.deliveries
        entry.priority = min(entry.priority, target.max_priority)
        if not target.grouped:
            group = 0
        elif group:
            self.groups[queue, entry.seq] = group
        if due_ms > entry.enqueued_ms:
            return target.schedule(new_held(target, entry, due_ms, group), due_ms)
        if moved:
            return self.put_back(target, entry, entry.enqueued_ms, group)
        return target.wait(entry, group)

    def adopt(self, Queue queue not None, str vhost, str name, policy, arguments, bint auto_delete) -> None:
        """Give a queue the definition that came after its messages, and let them enter it again by its rules."""
        cdef list found = [self.pick(queue, seq) for seq in sorted(waiting_numbers(queue))]
        queue.ready = None
        queue.expiries = None
        Queue.__init__(queue, self, queue.id, vhost, name, policy, arguments, auto_delete=auto_delete)
        for held in found:
            self.enter_again(queue, <Held>held)

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
                self.timers.remove(held)
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

    cdef int replay_settle(self, uint32_t queue, uint64_t seq, uint32_t count) except -1:
        cdef Queue target = self.queues.get(queue)
        cdef uint64_t each
        if target is None:
            target = self.undefined.get(queue)
        if target is not None:
            for each in range(seq, seq + count):
                self.pick(target, each)
        return 0

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

    cdef int replay_deliver(self, uint32_t queue, uint64_t seq, uint32_t count, uint32_t deliveries) except -1:
        cdef Queue target = self.queue_of(queue)
        cdef Entry entry
        cdef Held held
        cdef uint64_t each
        for each in range(seq, seq + count):
            held = None if target.held is None else target.held.get(each)
            if held is not None:
                held.entry.deliveries = deliveries
            elif self.look_up(target, each, &entry):
                entry.deliveries = deliveries
                if deliveries > LANE_DELIVERIES_MAX or not self.rewrite(target, &entry):
                    held = self.pick(target, each)
                    held.entry.deliveries = deliveries
                    self.put_back(target, &held.entry, held.ready_ms, held.group)
        return 0

    cdef bint rewrite(self, Queue queue, Entry* entry) except -1:
        """Change a waiting message where it stands; False when its cell has no room for that."""
        cdef uint64_t group = self.groups.get((queue.id, entry.seq), 0) if queue.grouped else 0
        cdef Fifo fifo = queue.ready.fifo(entry.priority, group)
        return fifo.lane.replace(entry)

    cdef int replay_return(self, uint32_t queue, uint64_t seq, uint32_t deliveries, uint64_t due_ms) except -1:
        cdef Queue target = self.queue_of(queue)
        cdef Held held
        self.replay_deliver(queue, seq, 1, deliveries)
        if due_ms:
            held = self.pick(target, seq)
            if held is not None:
                self.restore_held(target, held, due_ms)
        return 0

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
        return 0 if due_ms >= HELD_DEAD_MS else self.timers.add(held)

    def replay_purge(self, queue: int, before: int, keep: list[int]) -> None:
        """See State."""
        cdef Queue target = self.queue_of(queue)
        kept = set(keep)
        for seq in [seq for seq in waiting_numbers(target) if seq < before and seq not in kept]:
            self.pick(target, seq)

    def replay_dedup(self, queue: int, digest: bytes, seq: int, at_ms: int, segment: int) -> None:
        """See State."""
        # The message may have been transient; its number must not become that of another while the key names it.
        self.last_seq = max(self.last_seq, <uint64_t>seq)
        self.queue_of(queue).remember(digest, seq, at_ms, segment)

    def recovered(self, now_ms: int) -> dict[int, int]:
        """See State."""
        if self.undefined:
            raise DamagedJournal(
                f"the journal has messages of {len(self.undefined)} queues that it does not define; open it with "
                "salvage=True to keep them in queues named leveret.recovered.*"
            )
        self.advance(now_ms)
        self.groups = {}
        # A receipt from before must not fit a lease of today: no broker hands out a million in each millisecond.
        self.last_lease = self.now_ms << LEASES_PER_MS_BITS
        # And it must not name another message than the one that it was for, if that got lost before it was durable.
        if self.last_seq:
            self.last_seq += LOST_SEQS_MAX
        for queue in self.queues.values():
            (<Queue>queue).use()
        return self.live_segments()

    def live_segments(self) -> dict[int, int]:
        """The number of live records in each segment."""
        cdef dict counts = {}
        for queue in self.queues.values():
            count_segments(<Queue>queue, counts)
        return counts

    def count_blobs(self) -> dict[bytes, int]:
        """Find out which blobs are named by messages, after a restart; reads those messages."""
        cdef Entry entry
        cdef Queue queue
        cdef Held held
        for queue in self.queues.values():
            for held in list((queue.held or {}).values()):
                if held.entry.flags & BLOB:
                    self.keep_blob(self.journal.read(&held.entry), 1)
                    queue.has_blobs = True
            for fifo in queue.ready.fifos() if queue.ready is not None else ():
                entry.seq = 0
                while (<Fifo>fifo).lane is not None and (<Fifo>fifo).lane.after(entry.seq, &entry):
                    if entry.flags & BLOB:
                        self.keep_blob(self.journal.read(&entry), 1)
                        queue.has_blobs = True
        return self.blobs

    # Checkpoints

    def snapshot(self) -> bytes:
        """See State."""
        return bytes(snapshots.write(self))

    def restore(self, snapshot: memoryview) -> None:
        """See State."""
        snapshots.read(self, snapshot)

    def restore_numbers(self, uint64_t last_seq, uint64_t now_ms) -> None:
        """Go on counting where others ended."""
        self.last_seq = max(self.last_seq, last_seq)
        self.advance(now_ms)

    # Compaction

    def relocate(self, segment: int, budget_bytes: int) -> bool:
        """See State."""
        cdef Queue queue
        cdef list together = []
        if self.relocation is None or self.relocation[0] != segment:
            self.relocation = (segment, living_in(self, segment))
        pending = self.relocation[1]
        while pending and budget_bytes > 0:
            together = [pending.pop()]
            while pending and pending[len(pending) - 1][:4] == together[0][:4]:
                together.append(pending.pop())
            try:
                budget_bytes -= self.move_together(together)
            except BaseException:
                # Read back over a network, a record may be out of reach for a while: it still has to move.
                pending.extend(reversed(together))
                raise
        if pending:
            return False
        self.relocation = None
        self.relocate_definitions(segment)
        return True

    cdef int move_together(self, list entries) except -1:
        """Append one record for all queues that hold a message with the same times and group; give its size."""
        cdef Entry entry
        cdef Place place
        cdef Message message = None
        cdef list still = []
        cdef Held held
        seq, due_ms, group, expiry_ms = entries[0][:4]
        for item in entries:
            queue = <Queue>self.queues.get(item[4])
            if queue is None:
                continue
            held = None if (<Queue>queue).held is None else (<Queue>queue).held.get(seq)
            if held is not None:
                entry = held.entry
            elif (<Queue>queue).ready is None or not (<Queue>queue).ready.find(seq, item[5], group, &entry):
                continue
            if entry.place.segment != self.relocation[0]:
                continue
            still.append((queue, held, item[5]))
        if not still:
            return 0
        message = self.journal.read(&entry)
        message.due_ms = due_ms
        message.group = group
        message.expiry_ms = expiry_ms
        self.journal.relocated(message, [queue.id for queue, _, _ in still], &place)
        for queue, held, priority in still:
            self.settle_down(<Queue>queue, held, seq, priority, group, &place)
        return place.size

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
            self.journal.delivered(queue.id, &entry, 0, 0)
        if held is not None and held.state == BACKING_OFF:
            self.journal.returned(queue.id, &entry, DELAYED, held.when_ms, 0, 0)
        return 0


def waiting_numbers(Queue queue not None) -> list[int]:
    """The numbers of all messages in a queue."""
    cdef Entry entry
    cdef list numbers = list(queue.held or ())
    cdef uint64_t seq
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        seq = 0
        while (<Fifo>fifo).lane is not None and (<Fifo>fifo).lane.after(seq, &entry):
            seq = entry.seq
            numbers.append(seq)
    return numbers


def transient(Queue queue not None) -> list[tuple[int, int, int]]:
    """Number, priority and group of the messages that a restart of the broker is to drop."""
    cdef Entry entry
    cdef Held held
    cdef uint64_t group
    cdef list found = []
    for held in (queue.held or {}).values():
        if not held.entry.flags & PERSISTENT:
            found.append((held.entry.seq, held.entry.priority, held.group))
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        group = (<Group>fifo).key if isinstance(fifo, Group) else 0
        entry.seq = 0
        while (<Fifo>fifo).lane is not None and (<Fifo>fifo).lane.after(entry.seq, &entry):
            if not entry.flags & PERSISTENT:
                found.append((entry.seq, entry.priority, group))
    return found


def drop_transient(Queue queue not None) -> None:
    """Drop those messages."""
    cdef Held held
    for seq, priority, group in transient(queue):
        held = queue.remove(seq, priority, group)
        if held is None:        # it is not ready, but due later
            held = queue.held[seq]
        queue.counters.dropped += 1
        queue.settle(held, CANCELLED)


def segments_of(Queue queue not None) -> dict[int, int]:
    """The number of records that a queue has in each segment."""
    cdef dict counts = {}
    count_segments(queue, counts)
    return counts


cdef int count_segments(Queue queue, dict counts) except -1:
    cdef Held held
    for each in (queue.held or {}).values():
        held = <Held>each
        if held.entry.place.segment:
            counts[held.entry.place.segment] = counts.get(held.entry.place.segment, 0) + 1
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        if (<Fifo>fifo).lane is not None:
            (<Fifo>fifo).lane.count_segments(counts)
    return 0


cdef list living_in(Restorable broker, uint32_t segment):
    """What lives in a segment: (number, due, group, expiry, queue, priority), the lowest number last.

    Segment 0 is the memory; there only what is in queues that last.
    """
    cdef Entry entry
    cdef Held held
    cdef Fifo fifo
    cdef uint64_t seq, group
    cdef list found = []
    for queue in broker.queues.values():
        if segment == 0 and not queue.durable:
            continue
        for each in ((<Queue>queue).held or {}).values():
            held = <Held>each
            if held.entry.place.segment == segment:
                due = 0 if held.ready_ms == held.entry.enqueued_ms else held.ready_ms
                found.append((held.entry.seq, due, held.group, held.entry.expiry_ms, queue.id, held.entry.priority))
        for fifo in (<Queue>queue).ready.fifos() if (<Queue>queue).ready is not None else ():
            if fifo.lane is None or segment and not fifo.lane.touches(segment):
                continue
            group = (<Group>fifo).key if isinstance(fifo, Group) else 0
            seq = 0
            while fifo.lane.after(seq, &entry):
                seq = entry.seq
                if entry.place.segment == segment:
                    found.append((seq, 0, group, entry.expiry_ms, queue.id, entry.priority))
    found.sort(reverse=True)
    return found
