"""Batches: entries are appended to an open batch, which is sealed when it is to be written.

    open batch --seal()--> unwritten batches --commit.py--> segment, and for a while still the tail
    (appended to)          (oldest first)                  (durable)

The place of a record is known when it is appended: where the open batch will begin was fixed when the one before it was
sealed. Nothing here waits for a disk. The owner serialises all calls: they come from one thread, or under one lock.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.ports cimport Content, Entry, Journal, Place
from leveret.storage.journal.records cimport (
    ALSO, ALSO_QUEUES, DEDUP, DEFINE, DELIVER, ENTRY_BYTES, BATCH_HEADER_BYTES, PUBLISH, RECORD_HEADER_BYTES, RETURN,
    RUN_MAX, SEGMENT_HEADER_BYTES, TAG_BYTES, TIMED, AlsoEntry, Buffer, DedupEntry, CommitBatch, RecordEntry,
    ReturnEntry, RunEntry, TimedEntry, crc32c_of, crc32c_prepare,
)

from leveret.core.errors import JournalFailed, MessageTooLarge

crc32c_prepare()

cdef enum:
    # A queue's index keeps sizes in 24 bits; the blob store takes what is larger.
    RECORD_BYTES_MAX = 0xFFFFFF
    # Offsets in a commit batch have 32 bits. The owner stops publishers long before, at unwritten_bytes_max.
    FRAME_BYTES_MAX = 1 << 30
    DIGEST_BYTES = 16
    # A buffer that grew beyond this in a burst is neither kept for reading nor for another commit batch.
    BUFFER_BYTES_MAX = 8 << 20


cdef class WrittenTail:
    """The commit batches that were written last, as many as fit: the cache of the journal.

    A message is mostly taken soon after it was sent, when its commit batch is still here. Keeping whole batches costs
    nothing per message; older records are read back from their segment in large pieces.
    """

    def __init__(self, uint64_t bytes_max) -> None:
        self.frames = []
        self.bytes_max = bytes_max

    cdef Buffer keep(self, CommitBatch batch):
        """Add a commit batch that was written; give a buffer that is free for another one, or None."""
        cdef Buffer free = None
        self.frames.append(batch)
        self.bytes += batch.content.capacity
        while self.bytes > self.bytes_max and self.first < len(self.frames):
            free = self.drop()
        return free

    cdef Buffer drop(self):
        """Forget the oldest commit batch; give its buffer."""
        cdef CommitBatch batch = <CommitBatch>self.frames[self.first]
        cdef Buffer content = batch.content
        batch.content = None
        self.frames[self.first] = None
        self.bytes -= content.capacity
        self.first += 1
        if self.first * 2 > len(self.frames):
            del self.frames[: self.first]
            self.hit -= self.first
            self.first = 0
        return content

    cdef bint holds(self, Py_ssize_t index, Place* place) noexcept:
        """Whether a record lies in this commit batch."""
        cdef CommitBatch batch
        if index < self.first or index >= len(self.frames):
            return False
        batch = <CommitBatch>self.frames[index]
        return (
            batch.segment == place.segment and batch.offset <= place.offset
            and <uint64_t>(place.offset - batch.offset) + place.size <= batch.content.size
        )

    cdef const uint8_t* record(self, Place* place) noexcept:
        """The address of a record, or NULL when it is not here any more."""
        cdef Py_ssize_t low = self.first, high = len(self.frames), middle
        cdef CommitBatch batch
        if not self.holds(self.hit, place):
            if self.holds(self.hit + 1, place):
                self.hit += 1
            else:
                while low < high:               # the last commit batch that begins at or before the record
                    middle = (low + high) // 2
                    batch = <CommitBatch>self.frames[middle]
                    if batch.segment < place.segment or (
                        batch.segment == place.segment and batch.offset <= place.offset
                    ):
                        low = middle + 1
                    else:
                        high = middle
                if not self.holds(low - 1, place):
                    return NULL
                self.hit = low - 1
        batch = <CommitBatch>self.frames[self.hit]
        return batch.content.data + (place.offset - batch.offset)

    cdef int forget(self, uint32_t segment) except -1:
        """A segment was removed: nothing of it is read again."""
        while self.first < len(self.frames) and (<CommitBatch>self.frames[self.first]).segment <= segment:
            self.drop()
        return 0


cdef class OpenBatches(Journal):
    """The end of the log that is still in memory."""

    def __init__(self, options, clock):
        self.segment_bytes = options.segment_bytes
        self.unwritten_bytes_max = options.unwritten_bytes_max
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.tag_bytes = TAG_BYTES if options.keys else 0
        self.clock = clock
        self.unwritten = []
        self.tail = WrittenTail(options.cache_bytes)
        self.index = Buffer()
        self.body = Buffer()
        self.body.extend(BATCH_HEADER_BYTES)

    # Appending.

    cdef int append_record(self, Content* content, list queues, uint16_t flags, Place* place) except -1:
        """Append a record and the entry that puts it into its queues."""
        cdef size_t size = RECORD_HEADER_BYTES + content.route_len + content.header_len + content.body_len
        cdef uint8_t* record
        cdef uint8_t* part
        cdef RecordEntry* entry
        cdef TimedEntry* timed
        if size > RECORD_BYTES_MAX:
            raise MessageTooLarge(f"a record of {size} bytes is over {RECORD_BYTES_MAX}: keep such bodies in the blob store")
        place.segment = self.segment
        place.offset = self.offset + self.append_area(NULL, size) + BATCH_HEADER_BYTES
        place.size = <uint32_t>size
        record = self.body.data + self.body.size - size
        memcpy(record + 4, &content.header_len, 4)
        part = record + RECORD_HEADER_BYTES
        memcpy(part, content.route, content.route_len)
        part += content.route_len
        memcpy(part, content.header, content.header_len)
        memcpy(part + content.header_len, content.body, content.body_len)
        (<uint32_t*>record)[0] = crc32c_of(0, record + 4, size - 4)
        entry = <RecordEntry*>self.append_entry()
        entry.kind = PUBLISH
        entry.detail = content.priority
        entry.flags = content.flags | flags
        entry.queue = queues[0]
        entry.seq = content.seq
        entry.offset = place.offset - self.offset - BATCH_HEADER_BYTES
        entry.size = <uint32_t>size
        entry.enqueued_ms = content.enqueued_ms
        if content.expiry_ms or content.due_ms or content.group:
            timed = <TimedEntry*>self.append_entry()
            timed.kind = TIMED
            timed.reserved = timed.deliveries = timed.reserved_too = 0
            timed.expiry_ms = content.expiry_ms
            timed.due_ms = content.due_ms
            timed.group = content.group
        if len(queues) > 1:
            self.append_queues(queues)
        return 0

    cdef int append_queues(self, list queues) except -1:
        """Name the second and further queues of a message."""
        cdef Py_ssize_t i = 1, j, total = len(queues)
        cdef AlsoEntry* also
        while i < total:
            also = <AlsoEntry*>self.append_entry()
            also.kind = ALSO
            also.count = <uint8_t>min(total - i, ALSO_QUEUES)
            also.reserved = 0
            for j in range(ALSO_QUEUES):
                also.queues[j] = queues[i + j] if j < also.count else 0
            i += also.count
        return 0

    cdef uint32_t append_area(self, const void* data, size_t size) except? 0xFFFFFFFF:
        """Append to the bodies of the open batch, or make room there; give the offset among them."""
        cdef uint32_t offset = <uint32_t>(self.body.size - BATCH_HEADER_BYTES)
        if self.body.size + size > self.frame_bytes_max:
            raise JournalFailed(f"a frame is over {self.frame_bytes_max} bytes: commit before appending more")
        if data == NULL:
            self.body.extend(size)
        elif size:
            self.body.append(data, size)
        return offset

    cdef void* append_entry(self) except NULL:
        """Room for one more index entry."""
        if self.index.size >= self.frame_bytes_max:
            raise JournalFailed(f"a frame is over {self.frame_bytes_max} bytes: commit before appending more")
        return self.index.extend(ENTRY_BYTES)

    cdef int append_with_area(self, uint8_t kind, uint8_t detail, uint32_t queue, uint64_t seq, bytes content) except -1:
        """Append an entry whose content lies among the bodies."""
        cdef uint32_t offset = self.append_area(<const char*>content, len(content))
        cdef RecordEntry* entry = <RecordEntry*>self.append_entry()
        entry.kind = kind
        entry.detail = detail
        entry.flags = 0
        entry.queue = queue
        entry.seq = seq
        entry.offset = offset
        entry.size = <uint32_t>len(content)
        entry.enqueued_ms = 0
        return 0

    cdef int append_run(
        self, uint8_t kind, uint8_t how, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        """Append a DELIVER or SETTLE entry, or let the last one also stand for this message."""
        cdef RunEntry* run
        cdef uint16_t deliveries = <uint16_t>min(entry.deliveries, <uint32_t>0xFFFF)
        cdef uint64_t count
        if self.index.size:
            run = <RunEntry*>(self.index.data + self.index.size - ENTRY_BYTES)
            count = run.at_and_count & RUN_MAX
            if (
                run.kind == kind and run.how == how and run.deliveries == deliveries and run.queue == queue
                and run.at_and_count >> 16 == at_ms and run.held_ms == held_ms and run.consumer == consumer
                and run.seq + count == entry.seq and count < RUN_MAX
            ):
                run.at_and_count += 1
                return 0
        run = <RunEntry*>self.append_entry()
        run.kind = kind
        run.how = how
        run.deliveries = deliveries
        run.queue = queue
        run.seq = entry.seq
        run.at_and_count = at_ms << 16 | 1
        run.held_ms = held_ms
        run.consumer = consumer
        return 0

    cdef int delivered(self, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t consumer) except -1:
        if entry.place.segment == 0:
            return 0
        return self.append_run(DELIVER, 0, queue, entry, at_ms, 0, consumer)

    cdef int returned(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t due_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        cdef ReturnEntry* back
        if entry.place.segment == 0:
            return 0
        back = <ReturnEntry*>self.append_entry()
        back.kind = RETURN
        back.how = how
        back.deliveries = <uint16_t>min(entry.deliveries, <uint32_t>0xFFFF)
        back.queue = queue
        back.seq = entry.seq
        back.due_ms = due_ms
        back.held_ms = held_ms
        back.consumer = consumer
        return 0

    def defined(self, what: int, payload: bytes) -> int:
        """Append a definition; give the segment that will hold it."""
        self.append_with_area(DEFINE, what, 0, 0, payload)
        return self.segment

    def deduplicated(self, queue: int, digest: bytes, seq: int, at_ms: int) -> int:
        """Append a de-duplication key; give the segment that will hold it."""
        cdef DedupEntry* entry
        cdef TimedEntry* timed
        cdef bytes key = digest
        assert len(key) == DIGEST_BYTES, "a de-duplication key is a digest of 16 bytes"
        entry = <DedupEntry*>self.append_entry()
        entry.kind = DEDUP
        entry.reserved = entry.reserved_too = 0
        entry.queue = queue
        entry.seq = seq
        memcpy(entry.digest, <const char*>key, DIGEST_BYTES)
        timed = <TimedEntry*>self.append_entry()
        timed.kind = TIMED
        timed.reserved = timed.deliveries = timed.reserved_too = 0
        timed.expiry_ms = at_ms
        timed.due_ms = timed.group = 0
        return self.segment

    # Committing.

    @property
    def dirty(self) -> bool:
        """Whether something was appended since the last seal."""
        return self.index.size > 0

    @property
    def idle(self) -> bool:
        """Whether there is nothing to write."""
        return not self.unwritten and self.index.size == 0

    @property
    def unwritten_bytes(self) -> int:
        """What a crash of the process would lose now."""
        return self.sealed_bytes + self.body.size - BATCH_HEADER_BYTES + self.index.size

    @property
    def cached_bytes(self) -> int:
        """Memory that holds commit batches which are written."""
        return self.tail.bytes

    @property
    def behind(self) -> bool:
        """Whether publishers must wait for the disk."""
        return self.unwritten_bytes > self.unwritten_bytes_max

    def next_batch(self) -> CommitBatch | None:
        """The oldest commit batch that is not yet written, the open one being sealed when there is no other."""
        return self.unwritten[0] if self.unwritten else self.seal()

    def seal(self) -> CommitBatch | None:
        """Close the open batch, if something is in it."""
        return self.mark() if self.index.size else None

    def mark(self) -> CommitBatch:
        """Close the open batch even if it is empty: a later commit batch proves that the ones before it were durable."""
        cdef CommitBatch batch = CommitBatch.__new__(CommitBatch)
        cdef uint64_t end
        batch.seq = self.pending
        batch.when_ms = self.clock()
        batch.segment = self.segment
        batch.offset = self.offset
        batch.body_len = <uint32_t>(self.body.size - BATCH_HEADER_BYTES)
        batch.index_len = <uint32_t>self.index.size
        if self.index.size:
            self.body.append(self.index.data, self.index.size)
            self.segment_filled = batch.segment
        batch.content = self.body
        self.index.size = 0
        self.body = self.spare if self.spare is not None else Buffer()
        self.spare = None
        self.body.size = 0
        self.body.extend(BATCH_HEADER_BYTES)
        self.unwritten.append(batch)
        self.sealed_bytes += batch.body_len + batch.index_len
        self.pending += 1
        end = <uint64_t>batch.offset + batch.content.size + self.tag_bytes
        if end >= self.segment_bytes:
            self.segment += 1
            self.offset = SEGMENT_HEADER_BYTES
        else:
            self.offset = <uint32_t>end
        return batch

    def begin_segment(self) -> bool:
        """See Journal. Only a commit batch makes the file of the next segment, which tells readers that this one is closed."""
        self.seal()
        if self.segment_filled == self.segment:
            self.segment += 1
            self.offset = SEGMENT_HEADER_BYTES
        if self.offset > SEGMENT_HEADER_BYTES:
            return False
        self.mark()
        return True

    def wrote(self, CommitBatch batch) -> None:
        """The oldest unwritten commit batch is on the disk, as durably as was asked for."""
        cdef Buffer free
        assert self.unwritten[0] is batch, "frames are written in their order"
        del self.unwritten[0]
        self.sealed_bytes -= batch.body_len + batch.index_len
        self.durable = batch.seq
        if batch.content.capacity > BUFFER_BYTES_MAX:
            batch.content = None
            return
        free = self.tail.keep(batch)
        if free is not None:
            self.spare = free

    # Reading what is not written yet.

    cdef const uint8_t* unwritten_record(self, Place* place) noexcept:
        """The address of a record that is not in a file yet, or NULL."""
        cdef CommitBatch batch
        if place.segment == self.segment and place.offset >= self.offset:
            if place.offset - self.offset + <uint64_t>place.size <= self.body.size:
                return self.body.data + (place.offset - self.offset)
            return NULL
        for batch in self.unwritten:
            if batch.segment == place.segment and place.offset >= batch.offset:
                if place.offset - batch.offset + <uint64_t>place.size <= batch.content.size:
                    return batch.content.data + (place.offset - batch.offset)
        return NULL
