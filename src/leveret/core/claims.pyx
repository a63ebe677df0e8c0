"""Deliveries that outlive the owner of their queue: the next one finds their messages again and holds them.

A message is named by its number, and by when it was published: a number that was given to a message that was lost may be
that of another one by now. How often it was delivered tells a holder from an earlier one.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.held cimport GIVEN_BACK, Held
from leveret.core.ports cimport REQUEUED, Entry
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Fifo, MessageGroup

from leveret.core.reserving import hold_again

cdef enum:
    # Messages are handed out from the front of a queue: so many in a row that never were, and there are no more.
    FRESH_MAX = 100


def claim(
    Queue queue not None, uint64_t seq, uint64_t enqueued_ms, uint64_t group, uint32_t deliveries, uint8_t priority,
    Held kept=None,
) -> Held | None:
    """Lease a message to the one who was given it; `kept`: it is leased already, for the client that claims it.

    None when it is gone, or another client's. It is no further delivery, but one that the journal may not know of yet.
    """
    cdef Entry entry
    cdef Held held = kept
    if held is None:
        held = None if queue.held is None else queue.held.get(seq)
        if held is not None and held.state != GIVEN_BACK:
            return None
    if held is not None:
        entry = held.entry
    elif queue.ready is None or not queue.ready.find(seq, priority, group, &entry):
        return None
    if entry.enqueued_ms != enqueued_ms or entry.deliveries > deliveries:
        return None
    held = hold_again(queue, seq, priority, group) if kept is None else kept
    held.consumer = None        # of the channel that had it before
    if deliveries > entry.deliveries:
        held.entry.deliveries = deliveries
        if held.entry.place.segment:
            queue.engine.journal.delivered(queue.id, &held.entry, queue.engine.now_ms, 0)
    return held


def hold_delivered(Queue queue not None, uint32_t count_max) -> list[Held]:
    """Lease the waiting messages that were delivered before, for the clients that claim them; so many at most."""
    cdef Entry entry
    cdef Held held
    cdef Fifo fifo
    cdef uint64_t group
    cdef uint32_t fresh
    cdef list found = []
    for held in (queue.held or {}).values():
        if held.state == GIVEN_BACK and held.entry.deliveries and len(found) < count_max:
            found.append((held.entry.seq, held.entry.priority, held.group))
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        group = (<MessageGroup>fifo).key if isinstance(fifo, MessageGroup) else 0
        fresh = entry.seq = 0
        while fifo.lane is not None and fresh < FRESH_MAX and len(found) < count_max:
            if not fifo.lane.after(entry.seq, &entry):
                break
            fresh = 0 if entry.deliveries else fresh + 1
            if entry.deliveries:
                found.append((entry.seq, entry.priority, group))
    return [hold_again(queue, *each) for each in found]


def give_up(Held held not None, uint64_t lease) -> None:
    """Let a message wait again that no client has claimed, unless its lease has ended by itself."""
    cdef Queue queue = <Queue>held.queue
    if not queue.deleted and queue.has_held(held.entry.seq) and held.lease == lease:
        queue.give_back(held, REQUEUED, 0)


def gone() -> Held:
    """What stands for a delivery whose message is not there any more, or another client's."""
    return Held.__new__(Held)
