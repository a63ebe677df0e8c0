"""Leases that outlive a restart of the broker, or the owner of their queue: their messages are found and held again.

Messages that were reserved together (reservations.py) have leases that have no end of their own. Their bodies are not
kept in memory: a reader of a reservation reads them from the journal, any number of times. Deliveries that outlive the
owner of their queue are claimed from the next one.

A message is named by its number, and by when it was published: a number that was given to a message that was lost may be
that of another one by now. How often it was delivered tells a holder from an earlier one.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.held cimport GIVEN_BACK, LEASED, Held
from leveret.core.ports cimport REQUEUED, TIMED_OUT, Entry
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Fifo, MessageGroup

cdef enum:
    # Messages are handed out from the front of a queue: so many in a row that never were, and there are no more.
    FRESH_MAX = 100


def claim(
    Queue queue not None, uint64_t seq, uint64_t enqueued_ms, uint64_t group, uint32_t deliveries, uint8_t priority,
    Held kept=None,
) -> Held | None:
    """Lease a message to its consumer; `kept`: it is leased already, for the client that claims it.

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
    """Let a message wait again that no client has claimed, unless its lease has expired."""
    cdef Queue queue = <Queue>held.queue
    if not queue.deleted and queue.has_held(held.entry.seq) and held.lease == lease:
        queue.give_back(held, REQUEUED, 0)


def gone() -> Held:
    """What stands for a delivery whose message is not there any more, or another client's."""
    return Held.__new__(Held)


def take_reserved(Queue queue not None, uint32_t count_max, uint64_t bytes_max, str consumer) -> list[Held]:
    """Lease the next messages for ever: so many, or as many as have so many bytes together, but one at least."""
    cdef list taken = []
    cdef uint64_t size = 0, group = 0
    cdef Held held
    queue.use()
    while len(taken) < count_max and size < bytes_max:
        held = queue.next(group)
        if held is None and group:
            group = 0
            continue
        if held is None:
            break
        group = held.group if queue.batches else 0
        queue.lease(held, 0, consumer)
        size += held.entry.place.size
        taken.append(held)
    return taken


def hold_again(Queue queue not None, uint64_t seq, uint8_t priority, uint64_t group) -> Held | None:
    """Lease a waiting message that was leased when the broker stopped; it is no further delivery. None: it is gone."""
    cdef Held held = queue.remove(seq, priority, group)
    if held is None:
        return None
    if group:
        held.group = group
        queue.ready.occupy(queue.ready.group(held.group), held)
    queue.engine.last_lease += 1
    held.lease = queue.engine.last_lease
    held.state = LEASED
    held.delivered_ms = queue.engine.now_ms
    queue.leased += 1
    return held


def let_go(Queue queue not None, Held held not None, uint64_t lease) -> None:
    """Give back a message that was reserved for too long."""
    queue.leased_as(held, lease)
    queue.counters.timed_out += 1
    queue.give_back(held, TIMED_OUT, 0)
