"""How a broker comes back: replay of journal entries, checkpoints, and moving live records out of old segments.

During a replay messages are put straight to where they were: no limits, no expiry, no consumers. What was leased when the
broker stopped is simply waiting again, with its delivery count.
"""

from libc.stdint cimport uint32_t, uint64_t

from leveret.core import snapshots
from leveret.core.engine cimport Engine
from leveret.core.errors import DamagedJournal
from leveret.core.held cimport Held, new_held
from leveret.core.message cimport BLOB, PERSISTENT, Message
from leveret.core.policy import QueuePolicy
from leveret.core.ports cimport CANCELLED, Entry, JournaledState, Place
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Fifo, MessageGroup
from leveret.core.snapshots cimport Placement

cdef enum:
    LEASES_PER_MS_BITS = 20
    LOST_SEQS_MAX = 1 << 24         # numbers that were given and are not in the journal: publishers wait long before


cdef class Restorer(JournaledState):
    """What a journal reads a broker back into, and compacts; `definitions` is the broker's DefinitionLog."""

    cdef readonly Engine engine
    cdef readonly dict queues  # type: dict[int, Queue]  # id -> Queue
    cdef readonly dict undefined  # type: dict[int, Queue]  # id -> Queue whose definition has not been replayed yet
    cdef public object definitions  # type: DefinitionLog
    cdef public object on_recovered  # type: Callable[[], None]  # called when the replay is over
    cdef Placement places
    cdef object relocation              # what is left to move out of a segment

    def __init__(self, Engine engine not None) -> None:
        self.engine = engine
        self.places = Placement(engine)
        self.queues = {}
        self.undefined = {}

    cdef Queue queue_of(self, uint32_t id):
        """A queue by its number; its definition may come later in the log, copied forward."""
        cdef Queue queue = self.queues.get(id)
        if queue is None:
            queue = self.undefined.get(id)
        if queue is None:
            queue = self.undefined[id] = Queue(self.engine, id, "", "", QueuePolicy(max_priority=255, groups="fair"))
        return queue

    # Replay

    cdef int replay_publish(
        self, uint32_t queue, Entry* entry, uint64_t due_ms, uint64_t group, bint moved
    ) except -1:
        cdef Queue target = self.queue_of(queue)
        cdef Held held
        self.engine.last_seq = max(self.engine.last_seq, entry.seq)
        self.engine.advance(entry.enqueued_ms)
        if not moved:
            entry.expiry_ms = target.expires_at(entry.expiry_ms, entry.enqueued_ms, due_ms)
            if due_ms == 0 and target.delay_ms:
                due_ms = entry.enqueued_ms + target.delay_ms
        else:           # its record says when it expires and is due; the queue may have other rules by now
            held = self.places.pick(target, entry.seq)
            if held is not None:
                entry.deliveries = held.entry.deliveries
        entry.priority = min(entry.priority, target.max_priority)
        if not target.grouped:
            group = 0
        elif group:
            self.places.groups[queue, entry.seq] = group
        if due_ms > entry.enqueued_ms:
            return target.schedule(new_held(target, entry, due_ms, group), due_ms)
        if moved:
            return self.places.put_back(target, entry, entry.enqueued_ms, group)
        return target.wait(entry, group)

    def adopt(
        self, Queue queue not None, str vhost, str name, policy: QueuePolicy, arguments: Mapping[str, Any] | None,
        bint auto_delete,
    ) -> None:
        """Give a queue the definition that came after its messages, and let them enter it again by its rules."""
        cdef list found = [self.places.pick(queue, seq) for seq in sorted(waiting_numbers(queue))]
        queue.ready = None
        if queue.expiries is not None:
            queue.expiries.heap = []
        Queue.__init__(queue, self.engine, queue.id, vhost, name, policy, arguments, auto_delete=auto_delete)
        for held in found:
            self.places.enter_again(queue, <Held>held)

    cdef int replay_settle(self, uint32_t queue, uint64_t seq, uint32_t count) except -1:
        cdef Queue target = self.queues.get(queue)
        cdef uint64_t each
        if target is None:
            target = self.undefined.get(queue)
        if target is not None:
            for each in range(seq, seq + count):
                self.places.pick(target, each)
        return 0

    cdef int replay_deliver(self, uint32_t queue, uint64_t seq, uint32_t count, uint32_t deliveries) except -1:
        cdef Queue target = self.queue_of(queue)
        cdef uint64_t each
        for each in range(seq, seq + count):
            self.places.redelivered(target, each, deliveries)
        return 0

    cdef int replay_return(self, uint32_t queue, uint64_t seq, uint32_t deliveries, uint64_t due_ms) except -1:
        cdef Queue target = self.queue_of(queue)
        cdef Held held
        self.replay_deliver(queue, seq, 1, deliveries)
        if due_ms:
            held = self.places.pick(target, seq)
            if held is not None:
                self.places.restore_held(target, held, due_ms)
        return 0

    cdef int replay_numbers(self, uint32_t queue, uint64_t seq) except -1:
        self.engine.last_seq = max(self.engine.last_seq, seq)
        if queue > <uint32_t>self.definitions.last_queue_id:
            self.definitions.last_queue_id = queue
        return 0

    def replay_purge(self, queue: int, before: int, keep: list[int]) -> None:
        cdef Queue target = self.queue_of(queue)
        kept = set(keep)
        for seq in [seq for seq in waiting_numbers(target) if seq < before and seq not in kept]:
            self.places.pick(target, seq)

    def replay_definition(self, what: int, payload: bytes, segment: int) -> None:
        self.definitions.replay(what, payload, segment)

    def replay_dedup(self, queue: int, digest: bytes, seq: int, at_ms: int, segment: int) -> None:
        # The message may have been transient; its number must not become that of another while the key names it.
        self.engine.last_seq = max(self.engine.last_seq, <uint64_t>seq)
        self.queue_of(queue).remember(digest, seq, at_ms, segment)

    def recovered(self, now_ms: int) -> dict[int, int]:
        cdef Engine engine = self.engine
        self.definitions.recovered(now_ms)
        if self.undefined:
            raise DamagedJournal(
                f"the journal has messages of {len(self.undefined)} queues that it does not define; open it with "
                "salvage=True to keep them in queues named leveret.recovered.*"
            )
        engine.advance(now_ms)
        self.places.groups = {}
        # A receipt from before must not fit a lease of today: no broker hands out a million in each millisecond.
        engine.last_lease = engine.now_ms << LEASES_PER_MS_BITS
        # And it must not name another message than the one that it was for, if that got lost before it was durable.
        if engine.last_seq:
            engine.last_seq += LOST_SEQS_MAX
        for queue in self.queues.values():
            (<Queue>queue).use()
        live = self.live_segments()
        self.on_recovered()
        return live

    def live_segments(self) -> dict[int, int]:
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
                    self.engine.keep_blob(self.engine.journal.read(&held.entry), 1)
                    queue.has_blobs = True
            for fifo in queue.ready.fifos() if queue.ready is not None else ():
                entry.seq = 0
                while (<Fifo>fifo).lane is not None and (<Fifo>fifo).lane.after(entry.seq, &entry):
                    if entry.flags & BLOB:
                        self.engine.keep_blob(self.engine.journal.read(&entry), 1)
                        queue.has_blobs = True
        return self.engine.blobs

    # Checkpoints

    def snapshot(self) -> bytes:
        return bytes(snapshots.write(self.engine, self.queues, self.definitions.to_dict()))

    def restore(self, snapshot: memoryview) -> None:
        snapshots.read(self.places, self.queues, self.definitions, snapshot)

    def restore_numbers(self, uint64_t last_seq, uint64_t now_ms) -> None:
        """Continue after the numbers and the time of an earlier run."""
        self.engine.last_seq = max(self.engine.last_seq, last_seq)
        self.engine.advance(now_ms)

    # Compaction

    def relocate(self, segment: int, budget_bytes: int) -> bool:
        cdef Queue queue
        cdef list together = []
        if self.relocation is None or self.relocation[0] != segment:
            self.relocation = (segment, living_in(self.queues, segment))
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
        self.definitions.relocate(segment)
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
        message = self.engine.journal.read(&entry)
        message.due_ms = due_ms
        message.group = group
        message.expiry_ms = expiry_ms
        self.engine.journal.relocated(message, [queue.id for queue, _, _ in still], &place)
        for queue, held, priority in still:
            self.places.settle_down(<Queue>queue, held, seq, priority, group, &place)
        return place.size

def waiting_numbers(Queue queue not None) -> list[int]:
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
        group = (<MessageGroup>fifo).key if isinstance(fifo, MessageGroup) else 0
        entry.seq = 0
        while (<Fifo>fifo).lane is not None and (<Fifo>fifo).lane.after(entry.seq, &entry):
            if not entry.flags & PERSISTENT:
                found.append((entry.seq, entry.priority, group))
    return found


def drop_transient(Queue queue not None) -> None:
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


cdef list living_in(dict queues, uint32_t segment):
    """What lives in a segment: (number, due, group, expiry, queue, priority), the lowest number last.

    Segment 0 is the memory; there only what is in queues that last.
    """
    cdef Entry entry
    cdef Held held
    cdef Fifo fifo
    cdef uint64_t seq, group
    cdef list found = []
    for queue in queues.values():
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
            group = (<MessageGroup>fifo).key if isinstance(fifo, MessageGroup) else 0
            seq = 0
            while fifo.lane.after(seq, &entry):
                seq = entry.seq
                if entry.place.segment == segment:
                    found.append((seq, 0, group, entry.expiry_ms, queue.id, entry.priority))
    found.sort(reverse=True)
    return found
