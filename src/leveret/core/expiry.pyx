"""What happens when the time of a queue's messages, or of the queue itself, is over.

Expiries that rise along a lane are found at its head. The others (earlier than their predecessors', of groups, of messages
given back) are in the heap `expiries` of the queue; what has left meanwhile is skipped there.
"""

from heapq import heappop, heappush

from leveret.core.held cimport GIVEN_BACK, Held
from leveret.core.lane cimport Lane
from leveret.core.ports cimport Entry
from leveret.core.ready cimport Level

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF


cdef int expire(Queue queue) except -1:
    """The timer of a queue fired: remove what has expired; see when to look again."""
    cdef uint64_t now = queue.engine.now_ms, next_ms
    if queue.expires_ms and not queue.consumers and queue.used_ms + queue.expires_ms <= now:
        return queue.engine.queue_expired(queue)
    expire_noted(queue)
    expire_heads(queue)
    next_ms = head_expiry(queue)
    if queue.expiries:
        next_ms = min(next_ms, <uint64_t>queue.expiries[0][0])
    if queue.expires_ms:
        # The last consumer that leaves starts the time of the queue anew.
        next_ms = min(next_ms, (now if queue.consumers else queue.used_ms) + queue.expires_ms)
    return queue.set_timer(next_ms) if next_ms != NEVER else 0


cdef int expire_noted(Queue queue) except -1:
    """Let go of what has expired out of order."""
    cdef Held held
    while queue.expiries and queue.expiries[0][0] <= queue.engine.now_ms:
        _, seq, priority, group = heappop(queue.expiries)
        held = queue.remove(seq, priority, group)
        if held is not None:
            queue.engine.dead(queue, held, queue.expiry_reason(held))
    return 0


cdef int expire_heads(Queue queue) except -1:
    """Let go of what has expired at the head of a lane."""
    cdef Entry entry
    cdef Lane lane
    cdef Held held
    cdef uint64_t now = queue.engine.now_ms
    for level in list(queue.ready.levels) if queue.ready is not None else ():
        lane = None if level is None else (<Level>level).plain.lane
        while lane is not None and lane.peek(&entry) and entry.expiry_ms and entry.expiry_ms <= now:
            held = queue.remove(entry.seq, entry.priority, 0)
            queue.engine.dead(queue, held, queue.expiry_reason(held))
    return 0


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


cdef int restore_expiry(Queue queue, uint64_t expiry_ms, uint64_t seq, uint8_t priority, uint64_t group) except -1:
    """Remember an expiry again after a restart."""
    if queue.expiries is None:
        queue.expiries = []
    heappush(queue.expiries, (expiry_ms, seq, priority, group))
    return queue.set_timer(expiry_ms)


cdef int sweep(Queue queue) except -1:
    """Forget the expiries of messages that have left."""
    queue.expiries = sorted([item for item in queue.expiries if waits(queue, item[1], item[2], item[3])])
    return 0


def waits(Queue queue not None, uint64_t seq, uint8_t priority, uint64_t group) -> bool:
    """Whether a message is ready to be taken."""
    cdef Entry entry
    cdef Held held = None if queue.held is None else queue.held.get(seq)
    if held is not None:
        return held.state == GIVEN_BACK
    return queue.ready.find(seq, priority, group, &entry)
