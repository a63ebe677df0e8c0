"""The one timer of a queue, and the expiries of its messages that are out of order.

Expiries that rise along a lane are found at its head; only those that are out of order, or of a group, are in the heap.
"""

from heapq import heappush

from leveret.core.held cimport GIVEN_BACK, Held
from leveret.core.lane cimport Lane
from leveret.core.ready cimport Level

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF
cdef enum:
    STALE_MIN = 1000    # the heap is swept when it has more than this, and most of it is stale


cdef class Expiries(Timer):
    """Wakes a queue for the next expiry of its messages or of itself."""

    cdef int fire(self, uint64_t now_ms) except -1:
        return self.engine.callbacks.expire(self.queue)

    cdef int wake(self, uint64_t when_ms) except -1:
        """Wake the queue at a time, if it would not wake earlier anyway."""
        if self.slot:
            if self.when_ms <= when_ms:
                return 0
            self.engine.timers.remove(self)
        self.when_ms = when_ms
        return self.engine.timers.add(self)

    cdef int stop(self) except -1:
        """Do not wake the queue."""
        return self.engine.timers.remove(self) if self.slot else 0

    cdef int watch(self, Entry* entry, uint64_t group, Ready ready, dict held) except -1:
        """See to it that a message that begins to wait is noticed when it expires."""
        cdef Lane lane = None if group else ready.level(entry.priority).plain.lane
        if group or (lane is not None and entry.expiry_ms < lane.latest_expiry_ms):
            return self.note(entry, group, ready, held)
        return 0

    cdef int note(self, Entry* entry, uint64_t group, Ready ready, dict held) except -1:
        """Remember the expiry of a message that will not be at the head of a lane by then."""
        if len(self.heap) > STALE_MIN and <uint64_t>len(self.heap) > 2 * ready.length:
            self.heap = sorted(item for item in self.heap if waits(ready, held, item[1], item[2], item[3]))
        heappush(self.heap, (entry.expiry_ms, entry.seq, entry.priority, group))
        return 0

    cdef int remember(self, uint64_t expiry_ms, uint64_t seq, uint8_t priority, uint64_t group) except -1:
        """Remember an expiry again after a restart."""
        heappush(self.heap, (expiry_ms, seq, priority, group))
        return 0


cdef Expiries new_expiries(Holder queue, Engine engine, uint64_t tie):
    cdef Expiries made = Expiries.__new__(Expiries)
    made.queue = queue
    made.engine = engine
    made.heap = []
    made.tie = tie
    return made


def waits(Ready ready not None, dict held, uint64_t seq, uint8_t priority, uint64_t group) -> bool:
    """Whether a message is ready to be taken."""
    cdef Entry entry
    cdef Held found = None if held is None else held.get(seq)
    if found is not None:
        return found.state == GIVEN_BACK
    return ready.find(seq, priority, group, &entry)


cdef uint64_t head_expiry(Ready ready) except? 0:
    """The earliest expiry at the head of a lane, or NEVER."""
    cdef Entry entry
    cdef Lane lane
    cdef uint64_t earliest = NEVER
    if ready is None or ready.length == 0:
        return NEVER
    for level in ready.levels:
        if level is not None:
            lane = (<Level>level).plain.lane
            if lane is not None and lane.peek(&entry) and entry.expiry_ms:
                earliest = min(earliest, entry.expiry_ms)
    return earliest
