"""When messages of a queue expire, and the queue itself: what to look at, and when.

A queue has one timer. Expiries that rise along a lane are found at its head; only those that are out of order, or of a
group, have a heap of their own.
"""

from heapq import heappop, heappush

from leveret.core.held cimport GIVEN_BACK
from leveret.core.lane cimport Lane
from leveret.core.ports cimport EXPIRED, RETIRED
from leveret.core.queue cimport QueueTimer
from leveret.core.ready cimport Level

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF
cdef enum:
    STALE_MIN = 1000    # out-of-order expiries are swept when there are more than this, and most of them stale


cdef uint8_t reason_of(Queue queue, Held held) except? 255:
    """Why an expired message goes: past the queue's retention it is dropped, otherwise dead-lettered."""
    if queue.retention_ms != NEVER and held.entry.expiry_ms >= held.entry.enqueued_ms + queue.retention_ms:
        return RETIRED
    return EXPIRED


cdef int watch(Queue queue, Entry* entry, uint64_t group) except -1:
    """See to it that a waiting message is noticed when it expires.

    Expiries that rise along a lane are found at its head; only one that is earlier than its predecessors'
    needs a place in the heap.
    """
    cdef Lane lane = None if group else queue.ready.level(entry.priority).plain.lane
    if group or (lane is not None and entry.expiry_ms < lane.latest_expiry_ms):
        note(queue, entry, group)
    return set_timer(queue, entry.expiry_ms)


cdef int note(Queue queue, Entry* entry, uint64_t group) except -1:
    """Remember the expiry of a message that will not be at the head of a lane by then."""
    if queue.expiries is None:
        queue.expiries = []
    elif len(queue.expiries) > STALE_MIN and <uint64_t>len(queue.expiries) > 2 * queue.ready.length:
        sweep(queue)
    heappush(queue.expiries, (entry.expiry_ms, entry.seq, entry.priority, group))
    return 0


cdef int remember(Queue queue, uint64_t expiry_ms, uint64_t seq, uint8_t priority, uint64_t group) except -1:
    """Remember an expiry again after a restart."""
    if queue.expiries is None:
        queue.expiries = []
    heappush(queue.expiries, (expiry_ms, seq, priority, group))
    return set_timer(queue, expiry_ms)


def sweep(Queue queue not None) -> None:
    """Forget the expiries of messages that have left."""
    queue.expiries = sorted(item for item in queue.expiries if waits(queue, item[1], item[2], item[3]))


def waits(Queue queue not None, uint64_t seq, uint8_t priority, uint64_t group) -> bool:
    """Whether a message is ready to be taken."""
    cdef Entry entry
    cdef Held held = None if queue.held is None else queue.held.get(seq)
    if held is not None:
        return held.state == GIVEN_BACK
    return queue.ready.find(seq, priority, group, &entry)


cdef uint64_t head_expiry(Queue queue) except? 0:
    """The earliest expiry at the head of a lane, or NEVER."""
    cdef Entry entry
    cdef Lane lane
    cdef uint64_t earliest = NEVER
    if queue.ready is None or queue.ready.length == 0:
        return NEVER
    for level in queue.ready.levels:
        if level is not None:
            lane = (<Level>level).plain.lane
            if lane is not None and lane.peek(&entry) and entry.expiry_ms:
                earliest = min(earliest, entry.expiry_ms)
    return earliest


cdef int set_timer(Queue queue, uint64_t when_ms) except -1:
    """Wake this queue at a time, if it would not wake earlier anyway."""
    if queue.timer is None:
        queue.timer = QueueTimer.__new__(QueueTimer)
        queue.timer.queue = queue
        queue.timer.tie = queue.id
    if queue.timer.slot:
        if queue.timer.when_ms <= when_ms:
            return 0
        queue.engine.timers.remove(queue.timer)
    queue.timer.when_ms = when_ms
    return queue.engine.timers.add(queue.timer)


cdef int timer_fired(Queue queue) except -1:
    """Remove what has expired; see when to look again."""
    cdef uint64_t now = queue.engine.now_ms, next_ms
    if queue.expires_ms and not queue.consumers and queue.used_ms + queue.expires_ms <= now:
        return queue.engine.queue_expired(queue)
    try:
        return expire_heads(queue)
    finally:
        # Also after one that could not be read: those behind it expire all the same.
        next_ms = head_expiry(queue)
        if queue.expiries:
            next_ms = min(next_ms, <uint64_t>queue.expiries[0][0])
        if queue.expires_ms:
            # The last consumer that leaves starts the time of the queue anew.
            next_ms = min(next_ms, (now if queue.consumers else queue.used_ms) + queue.expires_ms)
        if next_ms != NEVER:
            set_timer(queue, next_ms)


cdef int expire_heads(Queue queue) except -1:
    """Let go of what has expired, as far as the tick's budget goes."""
    cdef Entry entry
    cdef Lane lane
    cdef Held held
    cdef uint64_t now = queue.engine.now_ms
    while queue.engine.budget > 0 and queue.expiries and queue.expiries[0][0] <= now:
        _, seq, priority, group = heappop(queue.expiries)
        held = queue.remove(seq, priority, group)
        queue.engine.budget -= 1
        if held is not None:
            queue.engine.dead(queue, held, reason_of(queue, held))
    if queue.ready is None:
        return 0
    for level in list(queue.ready.levels):
        lane = None if level is None else (<Level>level).plain.lane
        while queue.engine.budget > 0 and lane is not None and lane.peek(&entry):
            if entry.expiry_ms == 0 or entry.expiry_ms > now:
                break
            queue.engine.budget -= 1
            held = queue.remove(entry.seq, entry.priority, 0)
            queue.engine.dead(queue, held, reason_of(queue, held))
    return 0
