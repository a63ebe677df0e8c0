"""A checkpoint of the broker: definitions as JSON, lanes as they are in memory, held messages one by one.

    u32 version | u64 last number | u64 time | u32 length, definitions (JSON)
    then for each queue that has something: u32 id
        u32 fifos, each:  u64 group | u8 priority | pages (Lane.dump)
        u32 held, each:   HeldRow
        u32 expiries, each: ExpiryRow (those that are out of order)
        u32 keys, each:   KeyRow (de-duplication)
    u32 0

`Placement` puts messages where they were: no limits, no expiry, no consumers; for replay, checkpoints and compaction.
"""

import json

from libc.string cimport memcpy

from leveret.core.errors import UnknownFormat
from leveret.core.held cimport BACKING_OFF, GIVEN_BACK, HELD_DEAD_MS, SCHEDULED, new_held
from leveret.core.lane cimport Lane
from leveret.core.ports cimport DELAYED
from leveret.core.ready cimport Fifo, MessageGroup

cdef uint32_t VERSION = 1

cdef enum:
    LANE_DELIVERIES_MAX = 254       # a cell counts no further

cdef packed struct HeldRow:
    Entry entry
    uint64_t ready_ms
    uint64_t group
    uint64_t when_ms
    uint8_t state

cdef packed struct ExpiryRow:
    uint64_t expiry_ms
    uint64_t seq
    uint64_t group
    uint8_t priority

cdef packed struct KeyRow:
    uint8_t digest[16]
    uint64_t seq
    uint64_t at_ms
    uint32_t segment


cdef int add(bytearray out, const void* data, Py_ssize_t size) except -1:
    out += (<const char*>data)[:size]
    return 0


cdef int add_u32(bytearray out, uint32_t value) except -1:
    return add(out, &value, sizeof(value))


def write(Engine engine not None, queues: dict[int, Queue], defined: dict[str, Any]) -> bytearray:
    """The state of a broker as bytes: its numbers, what is defined, and its queues."""
    cdef bytearray out = bytearray()
    definitions = json.dumps(defined, separators=(",", ":")).encode()
    add_u32(out, VERSION)
    add(out, &engine.last_seq, 8)
    add(out, &engine.now_ms, 8)
    add_u32(out, <uint32_t>len(definitions))
    out += definitions
    for queue in queues.values():
        if queue.durable and (queue.depth or (<Queue>queue).held or queue.dedup):
            write_queue(<Queue>queue, out)
    add_u32(out, 0)
    return out


cdef int write_queue(Queue queue, bytearray out) except -1:
    cdef Fifo fifo
    cdef Held one
    cdef HeldRow row
    cdef ExpiryRow expiry
    cdef KeyRow key
    cdef uint64_t group
    cdef list fifos = [] if queue.ready is None else [
        each for each in queue.ready.fifos() if (<Fifo>each).lane is not None and (<Fifo>each).lane.length
    ]
    add_u32(out, queue.id)
    add_u32(out, <uint32_t>len(fifos))
    for fifo in fifos:
        group = (<MessageGroup>fifo).key if isinstance(fifo, MessageGroup) else 0
        add(out, &group, 8)
        out.append(fifo.head_priority())
        fifo.lane.dump(out)
    held = [each for each in (queue.held or {}).values() if (<Held>each).entry.place.segment]
    add_u32(out, <uint32_t>len(held))
    for one in held:
        row = HeldRow(one.entry, one.ready_ms, one.group, one.when_ms, one.state)
        add(out, &row, sizeof(row))
    expiries = [] if queue.expiries is None else queue.expiries.heap
    add_u32(out, <uint32_t>len(expiries))
    for expiry_ms, seq, priority, group_key in expiries:
        expiry = ExpiryRow(expiry_ms, seq, group_key, priority)
        add(out, &expiry, sizeof(expiry))
    keys = list(queue.dedup.rows()) if queue.dedup else []
    add_u32(out, <uint32_t>len(keys))
    for digest, key.seq, key.at_ms, key.segment in keys:
        memcpy(key.digest, <const uint8_t*><bytes>digest, 16)
        add(out, &key, sizeof(key))
    return 0


cdef class SnapshotCursor:
    """Reads a snapshot from front to back and never past its end."""

    cdef const uint8_t[::1] data
    cdef Py_ssize_t at

    def __init__(self, const uint8_t[::1] data) -> None:
        self.data = data

    cdef int take(self, void* into, Py_ssize_t size) except -1:
        if size > self.data.shape[0] - self.at:
            raise ValueError("the snapshot is cut short")
        memcpy(into, &self.data[self.at], size)
        self.at += size
        return 0

    cdef uint32_t u32(self) except? 0:
        cdef uint32_t value
        self.take(&value, sizeof(value))
        return value

    cdef bytes chunk(self, Py_ssize_t size):
        if size > self.data.shape[0] - self.at:
            raise ValueError("the snapshot is cut short")
        self.at += size
        return bytes(self.data[self.at - size : self.at])


def read(Placement places not None, queues: dict[int, Queue], definitions: "DefinitionLog", snapshot: memoryview) -> None:
    """Fill an empty broker from a snapshot; `definitions` (a DefinitionLog) makes its queues."""
    cdef SnapshotCursor cursor = SnapshotCursor(snapshot)
    cdef uint64_t last_seq, now_ms
    cdef uint32_t id, version = cursor.u32()
    if version != VERSION:
        raise UnknownFormat(f"snapshot version {version}: this Leveret reads version {VERSION}")
    cursor.take(&last_seq, 8)
    cursor.take(&now_ms, 8)
    places.engine.last_seq = max(places.engine.last_seq, last_seq)
    places.engine.advance(now_ms)
    definitions.restore(json.loads(cursor.chunk(cursor.u32())))
    while True:
        id = cursor.u32()
        if id == 0:
            return
        read_queue(places, <Queue>queues[id], cursor)


cdef int read_queue(Placement places, Queue queue, SnapshotCursor cursor) except -1:
    cdef HeldRow row
    cdef ExpiryRow expiry
    cdef KeyRow key
    cdef uint32_t i
    for i in range(cursor.u32()):
        read_fifo(places, queue, cursor)
    for i in range(cursor.u32()):
        cursor.take(&row, sizeof(row))
        read_held(places, queue, &row)
    for i in range(cursor.u32()):
        cursor.take(&expiry, sizeof(expiry))
        queue.wake(expiry.expiry_ms)
        queue.expiries.remember(expiry.expiry_ms, expiry.seq, expiry.priority, expiry.group)
    for i in range(cursor.u32()):
        cursor.take(&key, sizeof(key))
        queue.remember((<const char*>key.digest)[:16], key.seq, key.at_ms, key.segment)
    return 0


cdef int read_fifo(Placement places, Queue queue, SnapshotCursor cursor) except -1:
    cdef uint64_t group, seq = 0
    cdef uint8_t priority
    cdef Fifo fifo
    cdef Entry entry
    cursor.take(&group, 8)
    cursor.take(&priority, 1)
    if queue.ready is None:
        queue.configure_ready()
    fifo = queue.ready.group(group) if group else queue.ready.level(priority).plain
    fifo.lane = Lane()
    cursor.at += fifo.lane.load(&cursor.data[cursor.at], cursor.data.shape[0] - cursor.at)
    queue.ready.length += fifo.lane.length
    queue.ready.bytes += fifo.lane.bytes
    while group and fifo.lane.after(seq, &entry):
        seq = entry.seq
        places.groups[queue.id, seq] = group
    if fifo.lane.peek(&entry) and entry.expiry_ms:
        queue.wake(entry.expiry_ms)
    if group:
        return queue.ready.list_group(<MessageGroup>fifo)
    return queue.ready.note(priority)


cdef int read_held(Placement places, Queue queue, HeldRow* row) except -1:
    cdef Entry entry = row.entry
    cdef Held held = new_held(queue, &entry, row.ready_ms, row.group)
    if row.group:
        places.groups[queue.id, row.entry.seq] = row.group
    if row.state == SCHEDULED:
        return queue.schedule(held, row.when_ms)
    if row.state == BACKING_OFF:
        return places.restore_held(queue, held, row.when_ms)
    return places.put_back(queue, &held.entry, held.ready_ms, row.group)


cdef class Placement:
    """The places of messages in queues while a broker is restored or its log is compacted."""

    def __init__(self, Engine engine not None) -> None:
        self.engine = engine
        self.groups = {}

    cdef int enter_again(self, Queue queue, Held held) except -1:
        """Put a message, that a queue without rules had, where it belongs; they come in the order of their numbers."""
        cdef Entry* entry = &held.entry
        entry.expiry_ms = queue.expires_at(entry.expiry_ms, entry.enqueued_ms, held.ready_ms)
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
            self.engine.journal.returned(queue.id, &entry, DELAYED, 0, held.when_ms, 0, 0)
        return 0
