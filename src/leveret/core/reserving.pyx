"""Leases that have no end of their own: those of messages that were reserved together (reservations.py).

Their bodies are not kept in memory: a reader of a reservation reads them from the journal, any number of times.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.held cimport LEASED, Held
from leveret.core.ports cimport TIMED_OUT
from leveret.core.queue cimport Queue


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
