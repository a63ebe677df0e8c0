"""The entries that only history needs, until they go behind the others of a commit batch.

They have a buffer of their own: no caller waits for them, and they are no reason to write. When it is full, because the
writer does not keep up, events are dropped and counted; the next one that has room says how many.
"""

from libc.string cimport memcpy

from leveret.core.ports cimport LOST, STARTED
from leveret.storage.journal.records cimport (
    ENTRY_BYTES, EVENT, PUBLISH, TIMED, RunEntry, TimedEntry, fill_run, fill_timed, goes_on, is_at,
)

cdef enum:
    EVENT_BYTES_MAX = 8 << 20


cdef class EventLog:
    """What happened and was not written yet."""

    def __cinit__(self, clock):
        self.clock = clock
        self.entries = Buffer()

    cdef int note(
        self, uint8_t kind, uint8_t how, uint32_t queue, uint64_t seq, uint64_t at_ms, uint32_t value, uint32_t consumer,
        uint16_t deliveries
    ) except -1:
        """Append an entry, or let the last one also stand for this message."""
        cdef RunEntry run
        fill_run(&run, kind | EVENT, how, queue, seq, at_ms, value, consumer, deliveries)
        if not goes_on(self.entries, &run, ENTRY_BYTES):
            self.append(&run, NULL)
        return 0

    cdef int append(self, const RunEntry* run, const TimedEntry* timed) except -1:
        cdef uint8_t* room = self.room()
        if room != NULL:
            memcpy(room, run, ENTRY_BYTES)
            if timed != NULL:
                self.entries.append(timed, ENTRY_BYTES)
        return 0

    cdef int published(self, Content* content, list queues) except -1:
        """Append what is kept in memory only, or let the entries of the message before, for the same queues, stand for it."""
        cdef RunEntry run
        cdef TimedEntry timed
        cdef bint is_timed = content.expiry_ms or content.due_ms
        cdef size_t stride = ENTRY_BYTES * (1 + is_timed), back = stride * <size_t>len(queues)
        cdef uint32_t size = <uint32_t>min(content.body_len, <uint64_t>0xFFFFFFFF)
        fill_timed(&timed, TIMED | EVENT, content.expiry_ms, content.due_ms, 0)
        for queue in queues:
            fill_run(&run, PUBLISH | EVENT, content.priority, queue, content.seq, content.enqueued_ms, size, 0, 0)
            if (
                is_timed and not is_at(self.entries, &timed, back - ENTRY_BYTES)
                or not goes_on(self.entries, &run, back)
            ):
                self.append(&run, &timed if is_timed else NULL)
            else:
                back -= stride
        return 0

    cdef uint8_t* room(self) except? NULL:
        """Room for one more entry; NULL when there is none, which is counted."""
        cdef RunEntry told
        if self.entries.size >= EVENT_BYTES_MAX:
            self.dropped += 1
            self.lost += 1
            return NULL
        if self.start_ms:       # an idle broker writes nothing
            fill_run(&told, STARTED | EVENT, 0, 0, self.start_seq + 1, self.start_ms, 0, 0, 0)
            self.start_ms = 0
            self.entries.append(&told, ENTRY_BYTES)
        if self.lost:
            fill_run(&told, LOST | EVENT, 0, 0, self.lost, self.clock(), 0, 0, 0)
            self.lost = 0
            self.entries.append(&told, ENTRY_BYTES)
        return self.entries.extend(ENTRY_BYTES)
