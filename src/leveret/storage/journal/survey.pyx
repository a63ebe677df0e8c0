"""A survey of a segment: where it can be cut, and who is spoken of in each piece, before anything is read in earnest."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leveret.storage.journal.records cimport (
    ALSO,
    ALSO_QUEUES,
    DEDUP,
    DEFINE,
    DELIVER,
    ENTRY_BYTES,
    PUBLISH,
    PURGE,
    RETURN,
    SETTLE,
    TIMED,
    AlsoEntry,
    BatchHeader,
    RecordEntry,
    ReturnEntry,
    RunEntry,
)
from leveret.storage.journal.walk cimport Walk


cdef class Survey(Walk):
    """Walks a segment piece by piece; what was found is of the last piece."""

    cdef readonly uint64_t start            # where the piece begins; it ends at `offset`
    cdef readonly int64_t first_ms, last_ms
    cdef readonly set queues, consumers     # their numbers
    cdef readonly list definitions          # (what, payload)
    cdef uint32_t last_queue, last_consumer
    cdef bint may_be_torn

    def __init__(self, data, name, offset, end, salt, *, open_batch=None, bint may_be_torn=False) -> None:
        Walk.__init__(self, data, name, offset, end, salt, open_batch)
        self.may_be_torn = may_be_torn

    def piece(self, uint64_t piece_bytes) -> bool:
        """Walk over whole batches of about so many bytes; False at the end, which may be a commit batch that is not whole."""
        self.start = self.offset
        self.queues, self.consumers, self.definitions = set(), set(), []
        self.last_queue = self.last_consumer = 0
        while self.offset < self.end and self.offset - self.start < piece_bytes:
            if self.ends_here():
                self.end = self.offset
                break
            self.next_batch()
            if self.batch_at == self.start:
                self.first_ms = self.when_ms
            self.last_ms = self.when_ms
            while self.position < self.index_size:
                self.step()
        return self.offset > self.start

    cdef bint ends_here(self) noexcept:
        """Whether the next commit batch is one that was being written."""
        cdef BatchHeader header
        return self.may_be_torn and not self.is_whole(&header)

    cdef int step(self) except -1:
        """See who is in one entry."""
        cdef const uint8_t* entry = self.index + self.position
        cdef const RecordEntry* record = <const RecordEntry*>entry
        cdef const AlsoEntry* also = <const AlsoEntry*>entry
        cdef const RunEntry* run = <const RunEntry*>entry
        cdef const ReturnEntry* back = <const ReturnEntry*>entry
        cdef uint8_t kind = entry[0]
        cdef uint32_t i
        if kind == PUBLISH or kind == PURGE:
            self.see(record.queue, 0)
        elif kind == SETTLE or kind == DELIVER:
            self.see(run.queue, run.consumer)
        elif kind == RETURN:
            self.see(back.queue, back.consumer)
        elif kind == ALSO:
            for i in range(min(also.count, <uint8_t>ALSO_QUEUES)):
                self.see(also.queues[i], 0)
        elif kind == DEFINE:
            self.check_area(record.offset, record.size)
            self.definitions.append((record.detail, self.area[record.offset : record.offset + record.size]))
        elif kind != TIMED and kind != DEDUP:
            raise self.unknown(kind)
        self.position += ENTRY_BYTES
        return 0

    cdef int see(self, uint32_t queue, uint32_t consumer) except -1:
        """Remember numbers; those of peers are mostly the same."""
        if queue != self.last_queue:
            self.last_queue = queue
            self.queues.add(queue)
        if consumer != self.last_consumer:
            self.last_consumer = consumer
            self.consumers.add(consumer)
        return 0
