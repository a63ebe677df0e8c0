"""Looking into a queue without taking anything, and taking out single messages by their number."""

from libc.stdint cimport uint32_t, uint64_t

from leveret.core.errors import NotSupported
from leveret.core.held cimport BACKING_OFF, GIVEN_BACK, HELD_DEAD_MS, LEASED, SCHEDULED, Held, new_held
from leveret.core.message cimport BLOB, Message
from leveret.core.names import described
from leveret.core.ports cimport ACKED, CANCELLED, MOVED, Entry
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Fifo, MessageGroup

Cursor = tuple[int, int, int, int] | tuple[()]
"""Where ready_after() continues: which fifo, the last number in its lane, the place of the last message; () at the start."""
STATES = {0: "ready", GIVEN_BACK: "ready", SCHEDULED: "scheduled", BACKING_OFF: "backing-off", LEASED: "leased"}


def state_of(Held held not None) -> str:
    """The state of a held or browsed message as a word."""
    if held.state == BACKING_OFF and held.when_ms >= HELD_DEAD_MS:
        return "dead-lettering"
    return STATES.get(held.state, "done")


def ready_after(Queue queue not None, cursor: Cursor, uint32_t count) -> tuple[list[Held], Cursor | None]:
    """Up to `count` ready messages in the order of their delivery (strict), from a cursor on; and the next cursor.

    The cursor is () at first and None after the last message; it stays good while messages come and go.
    """
    cdef list found = [], fifos = [] if queue.ready is None else list(queue.ready.fifos())
    cdef uint32_t index
    cdef uint64_t lane_seq, after_ms, after_seq
    index, lane_seq, after_ms, after_seq = cursor or (0, 0, 0, 0)
    while index < len(fifos):
        lane_seq = merge(queue, <Fifo>fifos[index], lane_seq, after_ms, after_seq, count, found)
        if len(found) >= count:
            last = <Held>found[len(found) - 1]
            return found, (index, lane_seq, last.ready_ms, last.seq)
        index += 1
        lane_seq = after_ms = after_seq = 0
    return found, None


cdef uint64_t merge(
    Queue queue, Fifo fifo, uint64_t seq, uint64_t after_ms, uint64_t after_seq, uint32_t count, list found
) except? 0:
    """Add messages of a fifo: those in its lane after a number, those given back after a place; the last number added."""
    cdef Entry entry
    cdef uint64_t group = (<MessageGroup>fifo).key if isinstance(fifo, MessageGroup) else 0
    cdef list returned = []
    cdef Py_ssize_t at = 0
    if fifo.returned is not None:
        returned = fifo.returned.page(after_ms, after_seq, count - len(found))
    while len(found) < count and fifo.lane is not None and fifo.lane.after(seq, &entry):
        if at < len(returned) and place_of(returned[at]) < (entry.enqueued_ms, entry.seq):
            found.append(returned[at])
            at += 1
        else:
            seq = entry.seq
            found.append(new_held(queue, &entry, entry.enqueued_ms, group))
    found += returned[at : at + count - len(found)]
    return seq


def place_of(Held held not None) -> tuple[int, int]:
    """What orders messages in a queue."""
    return held.ready_ms, held.seq


def holdings(Queue queue not None, str state not None) -> list[Held]:
    """The messages that are scheduled, backing off or leased, the next due first."""
    found = [held for held in (queue.held or {}).values() if state_of(held) == state]
    return sorted(found, key=due_of)


def due_of(Held held not None) -> tuple[int, int]:
    """When something happens to a held message."""
    return held.when_ms, held.seq


def read(Held held not None) -> Message:
    cdef Queue queue = <Queue>held.queue
    return held.content if held.content is not None else queue.engine.journal.read(&held.entry)


def cancel(Queue queue not None, uint64_t seq) -> bool:
    """Remove a message that is scheduled for later; False when it is not."""
    cdef Held held = None if queue.held is None else queue.held.get(seq)
    if held is None or held.state != SCHEDULED:
        return False
    queue.counters.dropped += 1
    queue.settle(held, CANCELLED)
    return True


def withdraw(Queue queue not None, Held seen not None) -> Held | None:
    """Take a browsed message out of the queue; None when it has been taken meanwhile. Settle it with `moved`."""
    cdef Held held = None if queue.held is None else queue.held.get(seen.entry.seq)
    if held is not None and held.state == SCHEDULED:
        return held
    return queue.remove(seen.entry.seq, seen.entry.priority, seen.group)


def moved(Held held not None) -> None:
    """A withdrawn message is in another queue now."""
    cdef Queue queue = <Queue>held.queue
    queue.counters.moved += 1
    queue.settle(held, MOVED)


def discarded(Held held not None) -> None:
    """A withdrawn message is gone for good."""
    cdef Queue queue = <Queue>held.queue
    queue.counters.dropped += 1
    queue.settle(held, CANCELLED)


def ack_waiting(Queue queue not None, uint64_t seq) -> bool:
    """Settle a message that was done after its lease had ended, or the process that knew of it; False: it is not there."""
    cdef Held held = None if queue.held is None else queue.held.get(seq)
    if held is None:
        held = remove_any(queue, seq)
    else:
        held = queue.remove(seq, held.entry.priority, held.group)
    if held is None:
        return False
    queue.counters.acked += 1
    queue.settle(held, ACKED)
    return True


cdef Held remove_any(Queue queue, uint64_t seq):
    """Take a waiting message out of whatever lane it stands in; None when it is in none."""
    cdef Entry entry
    cdef Fifo fifo
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        if fifo.lane is not None and fifo.lane.find(seq, &entry):
            return queue.remove(seq, entry.priority, (<MessageGroup>fifo).key if isinstance(fifo, MessageGroup) else 0)
    return None


def depth_by_priority(Queue queue not None) -> dict[int, int]:
    """How many messages of each priority are ready; a group counts with its next message."""
    cdef dict counts = {}
    cdef Fifo fifo
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        if fifo.count():
            priority = fifo.head_priority()
            counts[priority] = counts.get(priority, 0) + fifo.count()
    return counts


def oldest_ms(Queue queue not None) -> int | None:
    """When the oldest ready message was enqueued."""
    cdef Entry entry
    cdef Fifo fifo
    oldest = None
    for fifo in queue.ready.fifos() if queue.ready is not None else ():
        times = [held.enqueued_ms for held in fifo.returned] if fifo.returned is not None else []
        if fifo.lane is not None and fifo.lane.peek(&entry):
            times.append(entry.enqueued_ms)
        oldest = min([*times, oldest] if oldest is not None else times, default=oldest)
    return oldest


def drop_blobs(Queue queue not None, bint everything) -> None:
    """Let go of the blobs of what is about to be purged."""
    cdef Held held
    # What was given back is both ready and held: counted twice, it would take the blob from another queue that has it.
    unready = [each for each in (queue.held or {}).values() if each.state != GIVEN_BACK] if everything else []
    for held in [*ready_after(queue, (), 0xFFFFFFFF)[0], *unready]:
        if held.entry.flags & BLOB:
            queue.engine.drop_blob(queue.engine.journal.read(&held.entry))


def purge(Queue queue not None, bint everything=False) -> int:
    """Empty a queue of what is ready, or of everything in it; give the number of messages that went."""
    cdef dict places = {}
    cdef list gone
    cdef Held held
    if queue.recorder is not None:
        where = described("queue", queue.name, queue.vhost)
        raise NotSupported(f"queue.purge not supported by stream queues {where}")
    if queue.has_blobs:
        drop_blobs(queue, everything)
    gone = [] if queue.ready is None else queue.ready.clear(places)
    for seq in gone:
        if queue.held is not None:
            queue.held.pop(seq, None)
    if everything:
        for held in list((queue.held or {}).values()):
            gone.append(held.entry.seq)
            if held.entry.place.segment:
                places[held.entry.place.segment] = places.get(held.entry.place.segment, 0) + 1
            queue.end_lease(held)
            held.lease = 0
            held.state = 0
        queue.held = None
        queue.ready = None
    if queue.expiries is not None:
        queue.expiries.heap = []
    if gone:
        queue.engine.journal.purged(queue.id, list(queue.held or ()), places, gone, queue.engine.now_ms)
    return len(gone)
