"""The commit batches of a segment without a state to play them into: where it can be cut, and its entries as columns.

Every length is compared with what remains before it is used, as in entries.pyx. The bytes may be mapped from a file
that may be damaged meanwhile: a reader checks each commit batch again.

Columns tell what commit batches tell, one row for each event of one message in one queue.

    PUBLISH, ALSO   a row for each queue          DELIVER, SETTLE   a row for each message of the run
    PURGE           one row, and one for each     RETURN, DEFINE    one row
                    message that was kept         TIMED, DEDUP      none: they belong to other entries
    EVENT           as the kind that it is a flag of; PUBLISH is a run, `how` says that the message is transient

Columns are packed C arrays for programs that compute on them. -1 stands for what a kind of event does not have.
A RETURN and a DEFINE do not say when they happened: they get the time of their commit batch. So does a PUBLISH that
was moved forward, because it repeats one that lies in an older segment.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.message cimport BLOB
from leveret.core.ports cimport APPENDED, COUNTED, LOST, READ, REFUSED, STARTED
from leveret.storage.journal.records cimport (
    ALSO, ALSO_QUEUES, BATCH_HEADER_BYTES, DEDUP, DEFINE, DELIVER, ENCRYPTED, ENTRY_BYTES, EVENT, MOVED_FORWARD, PUBLISH, PURGE,
    RECORD_HEADER_BYTES, RETURN, RUN_MAX, SETTLE, TIMED, AlsoEntry, BatchHeader, Buffer, RecordEntry, ReturnEntry,
    RunEntry, TimedEntry, crc32c_prepare, is_run_event, is_whole, rest_of, seq_in,
)

from leveret.core.errors import DamagedJournal, UnknownFormat

crc32c_prepare()

cdef enum:
    KIND_MOVED = 0
    KIND_SPARED = 0x40
    HOW_TRANSIENT = 0
    NOT_SAID = -1
    CONTENT_SIZE_AT = 4             # of the body size in a content header
    CONTENT_HEADER_BYTES_MIN = 14
    # A batch of large messages ends here, with however few rows; the ends of its values have 32 bits.
    VALUES_BYTES_MAX = 64 << 20

# What a row tells: the kinds of entries, and two more.
KINDS: dict[int, str] = {
    KIND_MOVED: "moved", PUBLISH: "published", DELIVER: "delivered", SETTLE: "settled", RETURN: "returned",
    PURGE: "purged", KIND_SPARED: "spared", DEFINE: "defined", STARTED: "started", LOST: "lost",
    REFUSED: "refused", APPENDED: "appended", READ: "read", COUNTED: "counted",
}


cdef class Walk:
    """A range of one segment; `open_batch` gets the head and the sealed bytes of an encrypted commit batch."""

    cdef const uint8_t[::1] data
    cdef str name
    cdef readonly uint64_t offset       # of the next commit batch
    cdef uint64_t end                   # of the range
    cdef uint64_t batch_at              # of the commit batch that is being read
    cdef uint32_t salt
    cdef object open_batch
    cdef object plain                   # keeps a decrypted commit batch alive
    cdef const uint8_t* area            # the bodies of the commit batch
    cdef uint64_t area_size
    cdef const uint8_t* index           # its entries
    cdef uint64_t index_size
    cdef uint64_t position              # of the next entry
    cdef int64_t when_ms

    def __init__(
        self, const uint8_t[::1] data not None, str name not None, uint64_t offset, uint64_t end, uint32_t salt,
        open_batch,
    ) -> None:
        self.name, self.salt, self.open_batch = name, salt, open_batch
        if end > <uint64_t>data.shape[0] or offset > end:
            raise self.damage(data.shape[0], "is cut")
        self.data, self.offset, self.end = data, offset, end

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
    cdef readonly set queues, consumers  # type: set[int]  # their numbers; 0: an event of no queue
    cdef readonly list definitions  # type: list[tuple[int, bytes]]  # what, payload
    cdef readonly list moved  # type: list[tuple[int, int, int]]  # offset of the commit batch, message, queue
    cdef readonly int64_t first_seq         # the first message that was published here; NOT_SAID: none was
    cdef uint64_t moving                    # the message that ALSO entries are of, if it was moved forward
    cdef uint32_t last_queue, last_consumer
    cdef bint may_be_torn

    def __init__(
        self, data, str name, uint64_t offset, uint64_t end, uint32_t salt, *,
        open_batch: Callable[[bytes, bytes], bytes] | None = None, bint may_be_torn=False,
    ) -> None:
        Walk.__init__(self, data, name, offset, end, salt, open_batch)
        self.may_be_torn = may_be_torn

    def piece(self, uint64_t piece_bytes) -> bool:
        """Walk over whole batches of about so many bytes; False at the end, which may be a commit batch that is not whole."""
        self.start = self.offset
        self.queues, self.consumers, self.definitions, self.moved = set(), set(), [], []
        self.first_seq, self.moving = NOT_SAID, 0
        self.last_queue, self.last_consumer = 0xFFFFFFFF, 0  # 0 is of no queue
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
        cdef const uint8_t* entry = self.index + self.position
        cdef const RecordEntry* record = <const RecordEntry*>entry
        cdef const AlsoEntry* also = <const AlsoEntry*>entry
        cdef const RunEntry* run = <const RunEntry*>entry
        cdef const ReturnEntry* back = <const ReturnEntry*>entry
        cdef uint8_t kind = entry[0]
        cdef uint32_t i
        if kind == PUBLISH:
            self.see(record.queue, 0)
            self.moving = record.seq if record.flags & MOVED_FORWARD else 0
            if self.moving:
                self.moved.append((self.batch_at, record.seq, record.queue))
            elif self.first_seq == NOT_SAID:
                self.first_seq = <int64_t>record.seq
        elif kind == PURGE or kind == DEDUP:
            self.see(record.queue, 0)
        elif kind == RETURN:
            self.see(back.queue, back.consumer)
        elif kind == ALSO:
            for i in range(min(also.count, <uint8_t>ALSO_QUEUES)):
                self.see(also.queues[i], 0)
                if self.moving:
                    self.moved.append((self.batch_at, self.moving, also.queues[i]))
        elif kind & ~EVENT == DEFINE:
            self.check_area(record.offset, record.size)
            self.definitions.append((record.detail, self.area[record.offset : record.offset + record.size]))
        elif kind == SETTLE or kind == DELIVER or is_run_event(kind):
            self.see(run.queue, run.consumer)
        elif kind & ~EVENT != TIMED:
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


cdef struct Row:                    # one row before it is spread over the columns
    int32_t queue
    int64_t seq
    int64_t at_ms
    int64_t held_ms
    int64_t due_ms
    int64_t enqueued_ms
    int64_t expiry_ms
    int64_t body_bytes
    int32_t deliveries
    int32_t consumer
    int32_t priority
    uint8_t kind
    uint8_t how


cdef class EventColumns(Walk):
    """Reads a range of one segment, so many rows at a time.

    `queues` has one byte for each queue number, not 0 for those that are wanted; None: all of them. Rows before
    `since_ms`, or at or after `until_ms`, are left out. With `content` only publishes are read, with their
    routes, headers and bodies; without `moved` not those that were moved forward.
    """

    cdef const uint8_t[::1] queues
    cdef int64_t since_ms, until_ms
    cdef bint content, moved
    cdef Row row                    # of the last PUBLISH, which ALSO repeats for other queues
    cdef uint64_t record_batch      # where the commit batch of that PUBLISH begins
    cdef const uint8_t* record
    cdef uint64_t record_size
    cdef uint8_t flags
    cdef readonly uint64_t rows
    cdef Buffer kinds, hows, queue_numbers, seqs, ats, helds, dues, enqueueds, expiries, sizes
    cdef Buffer deliveries, consumers, priorities
    cdef Buffer routes, route_ends, headers, header_ends, bodies, body_ends, blobs

    def __init__(
        self, data, str name, uint64_t offset, uint64_t end, uint32_t salt, *,
        open_batch: Callable[[bytes, bytes], bytes] | None = None, const uint8_t[::1] queues=None,
        int64_t since_ms=0, int64_t until_ms=0x7FFFFFFFFFFFFFFF, bint content=False, bint moved=True,
    ) -> None:
        Walk.__init__(self, data, name, offset, end, salt, open_batch)
        self.queues = queues
        self.since_ms, self.until_ms = since_ms, until_ms
        self.content = content
        self.moved = moved
        self.clear()

    cdef int clear(self) except -1:
        self.rows = 0
        self.kinds, self.hows, self.queue_numbers, self.seqs = Buffer(), Buffer(), Buffer(), Buffer()
        self.ats, self.helds, self.dues, self.enqueueds = Buffer(), Buffer(), Buffer(), Buffer()
        self.expiries, self.sizes, self.deliveries = Buffer(), Buffer(), Buffer()
        self.consumers, self.priorities = Buffer(), Buffer()
        self.routes, self.headers, self.bodies, self.blobs = Buffer(), Buffer(), Buffer(), Buffer()
        self.route_ends, self.header_ends, self.body_ends = Buffer(), Buffer(), Buffer()
        for ends in (self.route_ends, self.header_ends, self.body_ends):
            put_end(<Buffer>ends, 0)
        return 0

    # Walking.

    def fill(self, uint64_t rows_max) -> bool:
        """Read on until there are so many rows; False when there are none left."""
        while self.rows < rows_max and self.bodies.size + self.headers.size < VALUES_BYTES_MAX:
            if self.position >= self.index_size:
                if self.offset >= self.end:
                    break
                self.next_batch()
            else:
                self.step()
        return self.rows > 0

    def take(self) -> dict[str, bytes]:
        cdef dict taken = {
            "kind": self.kinds.copied(), "how": self.hows.copied(), "queue": self.queue_numbers.copied(),
            "seq": self.seqs.copied(), "at_ms": self.ats.copied(), "held_ms": self.helds.copied(),
            "due_ms": self.dues.copied(), "enqueued_ms": self.enqueueds.copied(), "expiry_ms": self.expiries.copied(),
            "bytes": self.sizes.copied(), "deliveries": self.deliveries.copied(), "consumer": self.consumers.copied(),
            "priority": self.priorities.copied(),
        }
        if self.content:
            taken["route"], taken["route_ends"] = self.routes.copied(), self.route_ends.copied()
            taken["header"], taken["header_ends"] = self.headers.copied(), self.header_ends.copied()
            taken["body"], taken["body_ends"] = self.bodies.copied(), self.body_ends.copied()
            taken["blob"] = self.blobs.copied()
        self.clear()
        return taken

    cdef int step(self) except -1:
        cdef const uint8_t* entry = self.index + self.position
        cdef uint8_t kind = entry[0]
        if kind == PUBLISH:
            self.publish(<const RecordEntry*>entry)
        elif kind == ALSO:
            self.also(<const AlsoEntry*>entry)
        elif kind == SETTLE or kind == DELIVER or is_run_event(kind):
            if not self.content:
                self.run(<const RunEntry*>entry)
        elif kind == RETURN:
            if not self.content:
                self.give_back(<const ReturnEntry*>entry)
        elif kind == PURGE or kind & ~EVENT == DEFINE:
            if not self.content:
                self.area_entry(<const RecordEntry*>entry)
        elif kind & ~EVENT != TIMED and kind != DEDUP:
            raise self.unknown(kind)
        self.position += ENTRY_BYTES
        return 0

    # Entries.

    cdef int publish(self, const RecordEntry* entry) except -1:
        """A message enters its first queue."""
        cdef Row* row = &self.row
        self.check_area(entry.offset, entry.size)
        self.flags = <uint8_t>entry.flags
        self.record = self.area + entry.offset
        self.record_size = entry.size
        self.record_batch = self.batch_at
        start_row(row, KIND_MOVED if entry.flags & MOVED_FORWARD else PUBLISH, entry.queue, entry.seq, self.when_ms)
        row.enqueued_ms = <int64_t>entry.enqueued_ms
        if row.kind == PUBLISH or self.content:
            row.at_ms = row.enqueued_ms
        row.priority = entry.detail
        row.body_bytes = self.body_bytes()
        self.add_times(row, TIMED)
        return self.add_message()

    cdef int also(self, const AlsoEntry* entry) except -1:
        """The same message enters more queues."""
        cdef uint32_t i
        if entry.count > ALSO_QUEUES or self.record == NULL or self.record_batch != self.batch_at:
            raise self.contradiction()
        for i in range(entry.count):
            self.row.queue = <int32_t>entry.queues[i]
            self.add_message()
        return 0

    cdef int run(self, const RunEntry* entry) except -1:
        """Messages with successive numbers were published, delivered or settled alike."""
        cdef Row row
        cdef uint64_t i
        if entry.at_and_count >> 16 == 0 and entry.kind == DELIVER:
            return 0                # only carries a count forward
        start_row(&row, entry.kind & ~EVENT, entry.queue, 0, <int64_t>(entry.at_and_count >> 16))
        row.consumer = <int32_t>entry.consumer
        if row.kind == PUBLISH:
            row.how, row.priority, row.enqueued_ms, row.body_bytes = HOW_TRANSIENT, entry.how, row.at_ms, entry.held_ms
            self.add_times(&row, TIMED | EVENT)
        elif row.kind < STARTED:
            row.deliveries = entry.deliveries
        if row.kind in (SETTLE, RETURN, COUNTED, REFUSED, APPENDED):
            row.how = entry.how
            (&row.body_bytes if row.kind == REFUSED or row.kind == APPENDED else &row.held_ms)[0] = entry.held_ms
        for i in range(entry.at_and_count & RUN_MAX):
            row.seq = NOT_SAID if row.kind == REFUSED else <int64_t>seq_in(entry, i)
            self.add(&row)
        return 0

    cdef int add_times(self, Row* row, uint8_t kind) except -1:
        """Take what an entry behind that of a publish tells of the message."""
        cdef const TimedEntry* timed = <const TimedEntry*>(self.index + self.position + ENTRY_BYTES)
        if self.position + ENTRY_BYTES < self.index_size and timed.kind == kind:
            row.deliveries = <int32_t>timed.deliveries or row.deliveries
            row.due_ms = <int64_t>timed.due_ms or row.due_ms
            row.expiry_ms = <int64_t>timed.expiry_ms or row.expiry_ms
        return 0

    cdef int give_back(self, const ReturnEntry* entry) except -1:
        """A message went back to its queue."""
        cdef Row row
        start_row(&row, RETURN, entry.queue, entry.seq, self.when_ms)
        row.how, row.deliveries = entry.how, entry.deliveries
        row.held_ms, row.consumer = entry.held_ms, <int32_t>entry.consumer
        row.due_ms = <int64_t>entry.due_ms or NOT_SAID
        return self.add(&row)

    cdef int area_entry(self, const RecordEntry* entry) except -1:
        """A definition, or a queue that was emptied but for some messages."""
        cdef Row row
        cdef uint64_t seq
        cdef uint32_t i
        self.check_area(entry.offset, entry.size)
        if entry.kind != PURGE:
            start_row(&row, DEFINE, 0, 0, self.when_ms)
            row.how = entry.detail
            return self.add(&row)
        if entry.size % 8:
            raise self.contradiction()
        start_row(&row, PURGE, entry.queue, entry.seq, <int64_t>entry.enqueued_ms or self.when_ms)
        self.add(&row)
        row.kind = KIND_SPARED
        for i in range(entry.size // 8):
            memcpy(&seq, self.area + entry.offset + 8 * i, 8)
            row.seq = <int64_t>seq
            self.add(&row)
        return 0

    cdef uint64_t route_bytes(self) except 0:
        """The length of exchange and routing key in the record."""
        cdef uint64_t size = self.record_size, used = RECORD_HEADER_BYTES + 2
        if size >= used and self.record[RECORD_HEADER_BYTES] <= size - used:
            used += self.record[RECORD_HEADER_BYTES]
            if self.record[used - 1] <= size - used:
                return used + self.record[used - 1] - RECORD_HEADER_BYTES
        raise self.contradiction()

    cdef int64_t body_bytes(self) except -1:
        """The length of the body, wherever it is kept."""
        cdef uint64_t used = RECORD_HEADER_BYTES + self.route_bytes(), size = 0
        cdef uint32_t header_len, i
        memcpy(&header_len, self.record + 4, 4)
        if header_len > self.record_size - used:
            raise self.contradiction()
        if not self.flags & BLOB or header_len < CONTENT_HEADER_BYTES_MIN:
            return <int64_t>(self.record_size - used - header_len)
        for i in range(8):
            size = size << 8 | self.record[used + CONTENT_SIZE_AT + i]
        return <int64_t>(size & 0x7FFFFFFFFFFFFFFF)

    # Rows.

    cdef int add_message(self) except -1:
        """Add the row of a publish, with its content if that is wanted."""
        cdef uint64_t before = self.rows, used
        cdef uint32_t header_len
        cdef const uint8_t* part
        if self.row.kind == KIND_MOVED and not self.moved:
            return 0
        self.add(&self.row)
        if not self.content or self.rows == before:
            return 0
        used = self.route_bytes()
        part = self.record + RECORD_HEADER_BYTES
        memcpy(&header_len, self.record + 4, 4)
        self.routes.append(part, used)
        put_end(self.route_ends, self.routes.size)
        self.headers.append(part + used, header_len)
        put_end(self.header_ends, self.headers.size)
        used += RECORD_HEADER_BYTES + header_len
        self.bodies.append(self.record + used, self.record_size - used)
        put_end(self.body_ends, self.bodies.size)
        self.blobs.extend(1)[0] = 1 if self.flags & BLOB else 0
        return 0

    cdef int add(self, const Row* row) except -1:
        """Add a row, if it is of a queue and of a time that are wanted."""
        cdef uint32_t queue = <uint32_t>row.queue
        if row.at_ms < self.since_ms or row.at_ms >= self.until_ms:
            return 0
        if self.queues is not None and (queue >= <uint32_t>self.queues.shape[0] or not self.queues[queue]):
            return 0
        self.kinds.extend(1)[0] = row.kind
        self.hows.extend(1)[0] = row.how
        (<int32_t*>self.queue_numbers.extend(4))[0] = row.queue
        (<int64_t*>self.seqs.extend(8))[0] = row.seq
        (<int64_t*>self.ats.extend(8))[0] = row.at_ms
        (<int64_t*>self.helds.extend(8))[0] = row.held_ms
        (<int64_t*>self.dues.extend(8))[0] = row.due_ms
        (<int64_t*>self.enqueueds.extend(8))[0] = row.enqueued_ms
        (<int64_t*>self.expiries.extend(8))[0] = row.expiry_ms
        (<int64_t*>self.sizes.extend(8))[0] = row.body_bytes
        (<int32_t*>self.deliveries.extend(4))[0] = row.deliveries
        (<int32_t*>self.consumers.extend(4))[0] = row.consumer
        (<int32_t*>self.priorities.extend(4))[0] = row.priority
        self.rows += 1
        return 0


cdef void start_row(Row* row, uint8_t kind, uint32_t queue, uint64_t seq, int64_t at_ms) noexcept:
    """A row of which only this much is known."""
    row.kind, row.how, row.queue = kind, 0xFF, <int32_t>queue
    row.seq, row.at_ms = <int64_t>seq, at_ms
    row.held_ms = row.due_ms = row.enqueued_ms = row.expiry_ms = row.body_bytes = NOT_SAID
    row.deliveries = row.priority = NOT_SAID
    row.consumer = 0


cdef int put_end(Buffer ends, uint64_t end) except -1:
    (<int32_t*>ends.extend(4))[0] = <int32_t>end
    return 0
