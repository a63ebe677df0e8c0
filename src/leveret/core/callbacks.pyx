"""What queues ask of their broker, passed on to the part that does it; and the removal of what has expired."""

from heapq import heappop

from libc.stdint cimport uint8_t, uint64_t

from leveret.core.dispatch import pump
from leveret.core.errors import JournalFailed
from leveret.core.expiries cimport head_expiry
from leveret.core.held cimport Held, Holder
from leveret.core.lane cimport Lane
from leveret.core.message cimport Message
from leveret.core.ports cimport Entry
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Level

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF


cdef class Callbacks(QueueCallbacks):
    """See QueueCallbacks; `delete_unused` is called with a queue that expired or whose last consumer left."""

    def __init__(self, DeadLetters dead_letters not None, delete_unused) -> None:
        self.dead_letters = dead_letters
        self.delete_unused = delete_unused

    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1:
        return self.dead_letters.dead(<Queue>queue, held, reason)

    cdef int overflowed(self, Holder queue, Message message) except -1:
        return self.dead_letters.overflowed(<Queue>queue, message)

    cdef int push(self, Holder queue) except -1:
        """See QueueCallbacks; a message that cannot be delivered is no error of the publisher."""
        try:
            pump(queue)
        except JournalFailed:
            raise
        except Exception:
            (<Queue>queue).signal()     # it is tried again, and then the caller of take_dirty gets the error
        return 0

    cdef int expire(self, Holder queue) except -1:
        return expire(<Queue>queue)

    cdef int unused(self, Holder queue) except -1:
        self.delete_unused(queue)
        return 0


cdef int expire(Queue queue) except -1:
    """Remove what has expired; see when to look again."""
    cdef uint64_t now = queue.engine.now_ms, next_ms
    if queue.expires_ms and not queue.consumers and queue.used_ms + queue.expires_ms <= now:
        return queue.engine.callbacks.unused(queue)
    try:
        return expire_messages(queue)
    finally:
        # Also after one that could not be read: those behind it expire all the same.
        next_ms = head_expiry(queue.ready)
        if queue.expiries is not None and queue.expiries.heap:
            next_ms = min(next_ms, <uint64_t>queue.expiries.heap[0][0])
        if queue.expires_ms:
            # The last consumer that leaves starts the time of the queue anew.
            next_ms = min(next_ms, (now if queue.consumers else queue.used_ms) + queue.expires_ms)
        if next_ms != NEVER:
            queue.wake(next_ms)


cdef int expire_messages(Queue queue) except -1:
    """Remove messages that have expired, as far as the tick's budget goes."""
    cdef Entry entry
    cdef Lane lane
    cdef Held held
    cdef uint64_t now = queue.engine.now_ms
    while queue.engine.budget > 0 and queue.expiries is not None and queue.expiries.heap:
        if queue.expiries.heap[0][0] > now:
            break
        _, seq, priority, group = heappop(queue.expiries.heap)
        held = queue.remove(seq, priority, group)
        queue.engine.budget -= 1
        if held is not None:
            queue.engine.callbacks.dead(queue, held, queue.expiry_reason(held))
    if queue.ready is None:
        return 0
    for level in list(queue.ready.levels):
        lane = None if level is None else (<Level>level).plain.lane
        while queue.engine.budget > 0 and lane is not None and lane.peek(&entry):
            if entry.expiry_ms == 0 or entry.expiry_ms > now:
                break
            queue.engine.budget -= 1
            held = queue.remove(entry.seq, entry.priority, 0)
            queue.engine.callbacks.dead(queue, held, queue.expiry_reason(held))
    return 0
