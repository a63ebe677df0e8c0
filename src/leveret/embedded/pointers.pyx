"""Which bodies in the blob store are still needed: a walk over everything that is in the queues."""

from libc.stdint cimport uint64_t

from leveret.core.held cimport Held
from leveret.core.message cimport BLOB, Message
from leveret.core.ports cimport Entry, Journal
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Fifo


def live_pointers(core) -> set[bytes]:
    """The pointers of all messages in all queues whose body is a blob."""
    cdef set found = set()
    cdef Journal journal = core.journal
    cdef Queue queue
    cdef Entry entry
    cdef Held held
    cdef Fifo fifo
    cdef uint64_t seq
    for queue in core.queues.values():
        for each in (queue.held or {}).values():
            held = <Held>each
            if held.entry.flags & BLOB:
                found.add((held.content if held.content is not None else journal.read(&held.entry)).body)
        for fifo in queue.ready.fifos() if queue.ready is not None else ():
            seq = 0
            while fifo.lane is not None and fifo.lane.after(seq, &entry):
                seq = entry.seq
                if entry.flags & BLOB:
                    found.add(journal.read(&entry).body)
    return found
