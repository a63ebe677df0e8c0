"""Walking through the commit batches of a segment without a state to play them into.

Every length is compared with what remains before it is used, as in entries.pyx. The bytes may be mapped from a file
that may be damaged meanwhile: a reader checks each commit batch again.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leveret.storage.journal.records cimport (
    ALSO, ALSO_QUEUES, BATCH_HEADER_BYTES, DEDUP, DEFINE, DELIVER, ENCRYPTED, ENTRY_BYTES, PUBLISH, PURGE, RETURN,
    SETTLE, TIMED, AlsoEntry, BatchHeader, RecordEntry, ReturnEntry, RunEntry, crc32c_prepare, is_whole, rest_of,
)

from leveret.core.errors import DamagedJournal, UnknownFormat

crc32c_prepare()


cdef class Walk:
    """A range of one segment; `open_batch` gets the head and the sealed bytes of an encrypted commit batch."""

    def __init__(
        self, const uint8_t[::1] data not None, str name not None, uint64_t offset, uint64_t end, uint32_t salt,
        open_batch,
    ) -> None:
        self.name = name
        if end > <uint64_t>data.shape[0] or offset > end:
            raise self.damage(data.shape[0], "is cut")
        self.data = data
        self.offset = offset
        self.end = end
        self.salt = salt
        self.open_batch = open_batch

    cdef bint find(self, BatchHeader* header) noexcept:
        """Read the header of the next commit batch; False when there is no whole commit batch of this segment."""
        return self.offset < self.end and is_whole(
            &self.data[self.offset], self.end - self.offset, self.salt, header
        )

    cdef int next_batch(self) except -1:
        """Check the next commit batch and begin with its entries."""
        cdef BatchHeader header
        cdef uint64_t rest
        cdef const uint8_t[::1] plain
        if not self.find(&header):
            raise self.damage(self.offset, "holds a damaged frame")
        rest = rest_of(&header)
        self.batch_at = self.offset
        self.when_ms = <int64_t>header.when_ms
        self.area = &self.data[self.offset] + BATCH_HEADER_BYTES
        if header.flags & ENCRYPTED:
            if self.open_batch is None:
                raise self.contradiction()
            head = bytes(self.data[self.offset : self.offset + BATCH_HEADER_BYTES])
            self.plain = self.open_batch(head, self.area[:rest])
            plain = self.plain
            if <uint64_t>plain.shape[0] != <uint64_t>header.body_len + header.index_len:
                raise self.contradiction()
            self.area = &plain[0] if plain.shape[0] else NULL
        self.area_size = header.body_len
        self.index = self.area + header.body_len
        self.index_size = header.index_len
        self.position = 0
        self.offset += BATCH_HEADER_BYTES + rest
        return 0

    cdef int check_area(self, uint64_t offset, uint64_t size) except -1:
        """Refuse an entry that points outside of its commit batch."""
        if offset > self.area_size or size > self.area_size - offset:
            raise self.contradiction()
        return 0

    cdef object damage(self, uint64_t offset, str what):
        """The error for bytes that are not as they were written."""
        return DamagedJournal(f"{self.name} {what} at offset {offset}: restore the file from a backup, or leave it out")

    cdef object contradiction(self):
        """The error for a commit batch that passes its checksum and makes no sense."""
        return self.damage(self.batch_at, "holds a frame that contradicts itself")

    cdef object unknown(self, uint8_t kind):
        """The error for an entry of the future."""
        return UnknownFormat(f"{self.name} holds an entry of kind {kind}: it was written by a newer version; use that")


cdef class Survey(Walk):
    """Where a segment can be cut, and who is spoken of in each piece, before anything is read in earnest."""

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
        return self.may_be_torn and not self.find(&header)

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
