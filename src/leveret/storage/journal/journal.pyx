"""The journal on files, as the core sees it: what it appends, counts and reads back.

    open batch --seal()--> unwritten batches --commit.py--> segment, and for a while still the tail
    (appended to)          (oldest first)                  (durable)

The place of a record is known when it is appended: where the open batch will begin was fixed when the one before it was
sealed. Nothing here but reading from a segment waits for a disk. The owner serialises all calls: they come from one
thread, or under one lock.

A record can be read wherever it is: in a commit batch that is not yet written, in one that was written lately, in a segment.
Messages that are not to be durable are objects in memory and are never given up.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.message cimport PERSISTENT, Message, new_message
from leveret.core.ports cimport PURGED, Content, Entry, Journal, Place, Record, parts_of
from leveret.storage.journal.events cimport EventLog
from leveret.storage.journal.records cimport (
    ALSO, ALSO_QUEUES, DEDUP, DEFINE, DELIVER, ENTRY_BYTES, EVENT, BATCH_HEADER_BYTES, MOVED_FORWARD, PUBLISH, PURGE,
    RECORD_HEADER_BYTES, RETURN, SEGMENT_HEADER_BYTES, SETTLE, TAG_BYTES, TIMED, AlsoEntry, Buffer, CommitBatch,
    DedupEntry, RecordEntry, ReturnEntry, RunEntry, TimedEntry, WrittenTail, crc32c_of, crc32c_prepare, fill_record,
    fill_run, fill_timed, goes_on, saturated,
)

from leveret.core.errors import DamagedJournal, JournalFailed, MessageTooLarge

crc32c_prepare()

cdef enum:
    # A queue's index keeps sizes in 24 bits; the blob store takes what is larger.
    RECORD_BYTES_MAX = 0xFFFFFF
    # Offsets in a commit batch have 32 bits. The owner stops publishers long before, at unwritten_bytes_max.
    FRAME_BYTES_MAX = 1 << 30
    DIGEST_BYTES = 16
    # A buffer that grew beyond this in a burst is neither kept for reading nor for another commit batch.
    BUFFER_BYTES_MAX = 8 << 20


cdef class FileJournal(Journal):
    """Appends to commit batches and reads back from them; `leveret.storage.journal.store` opens one on a directory."""

    cdef readonly uint64_t pending          # the commit batch that is being filled: what a publisher waits for
    cdef readonly uint64_t durable, awaited # the last one that is confirmed; the last sealed one that is not history only
    cdef readonly uint32_t segment, offset  # where the commit batch being filled will begin
    cdef uint32_t segment_filled            # the last one that holds more than empty commit batches
    cdef readonly uint64_t sealed_bytes     # of commit batches that are sealed and not yet written
    cdef public uint64_t frame_bytes_max
    cdef uint64_t segment_bytes, unwritten_bytes_max
    cdef uint32_t tag_bytes
    cdef object clock
    cdef Buffer body, index, spare
    cdef readonly EventLog events           # what only history needs: behind the others of the batch
    cdef list unwritten
    cdef WrittenTail tail
    cdef readonly dict live                 # segment -> records that some queue still holds
    cdef readonly dict placed               # segment -> records that were ever put there
    cdef object reader
    cdef uint32_t counted                   # counts of one segment wait here to be added to live and placed
    cdef int64_t live_change, placed_change
    cdef uint32_t window_segment, window_offset
    cdef bytes window

    def __init__(self, options: "JournalOptions", clock: Callable[[], int]):
        self.segment_bytes, self.unwritten_bytes_max = options.segment_bytes, options.unwritten_bytes_max
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.tag_bytes = TAG_BYTES if options.keys else 0
        self.clock = clock
        self.unwritten = []
        self.tail = WrittenTail(options.cache_bytes)
        self.index, self.events, self.body = Buffer(), EventLog(clock), Buffer()
        self.history = options.keeps_all_events
        self.body.extend(BATCH_HEADER_BYTES)
        self.live, self.placed = {}, {}

    def begin(
        self, uint64_t seq, uint32_t segment, uint32_t offset, reader: "WindowReader", live: dict[int, int],
        placed: dict[int, int],
    ) -> None:
        """Take up a log whose next commit batch is number `seq` at this place."""
        self.pending = seq
        self.durable = self.awaited = seq - 1
        self.segment = segment
        self.segment_filled = segment if offset > SEGMENT_HEADER_BYTES else 0   # a new one may not have a file yet
        self.offset = offset
        self.reader, self.live, self.placed = reader, live, placed

    def started(self, seq: int, at_ms: int) -> None:
        self.events.start_seq, self.events.start_ms = seq, at_ms

    # Appending.

    cdef int append_record(self, Content* content, list queues, uint16_t flags, Place* place) except -1:
        """Append a record and the entry that puts it into its queues."""
        cdef size_t size = RECORD_HEADER_BYTES + content.route_len + content.header_len + content.body_len
        cdef uint8_t* record
        cdef uint8_t* part
        cdef RecordEntry* entry
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
            fill_timed(<TimedEntry*>self.append_entry(), TIMED, content.expiry_ms, content.due_ms, content.group)
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

    cdef int append_with_area(
        self, uint8_t kind, uint8_t detail, uint32_t queue, uint64_t seq, bytes content, uint64_t at_ms=0
    ) except -1:
        """Append an entry whose content lies among the bodies."""
        cdef uint32_t offset = self.append_area(<const char*>content, len(content))
        fill_record(<RecordEntry*>self.append_entry(), kind, detail, queue, seq, offset, <uint32_t>len(content), at_ms)
        return 0

    cdef int append_run(
        self, uint8_t kind, uint8_t how, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        """Append a DELIVER or SETTLE entry, or let the last one also stand for this message."""
        cdef RunEntry run
        fill_run(&run, kind, how, queue, entry.seq, at_ms, held_ms, consumer, saturated(entry.deliveries))
        if not goes_on(self.index, &run, ENTRY_BYTES):
            memcpy(self.append_entry(), &run, ENTRY_BYTES)
        return 0

    cdef int noted(
        self, uint8_t kind, uint8_t how, uint32_t queue, uint64_t seq, uint64_t at_ms, uint32_t value, uint32_t consumer,
        uint16_t deliveries=0
    ) except -1:
        return self.events.note(kind, how, queue, seq, at_ms, value, consumer, deliveries) if self.history else 0

    cdef int delivered(self, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t consumer) except -1:
        if entry.place.segment == 0:
            return self.noted(DELIVER, 0, queue, entry.seq, at_ms, 0, consumer, saturated(entry.deliveries))
        return self.append_run(DELIVER, 0, queue, entry, at_ms, 0, consumer)

    cdef int returned(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint64_t due_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        cdef ReturnEntry* back
        if entry.place.segment == 0:
            return self.noted(RETURN, how, queue, entry.seq, at_ms, held_ms, consumer, saturated(entry.deliveries))
        back = <ReturnEntry*>self.append_entry()
        back.kind = RETURN
        back.how = how
        back.deliveries = saturated(entry.deliveries)
        back.queue = queue
        back.seq = entry.seq
        back.due_ms = due_ms
        back.held_ms = held_ms
        back.consumer = consumer
        return 0

    def defined(self, what: int, payload: bytes) -> int:
        self.append_with_area(DEFINE, what, 0, 0, payload)
        return self.segment

    def named(self, what: int, payload: bytes) -> int:
        """See Journal."""
        cdef uint8_t* room = self.events.room() if self.history else NULL
        if room == NULL:
            return 0
        fill_record(
            <RecordEntry*>room, DEFINE | EVENT, what, 0, 0, self.append_area(<const char*>payload, len(payload)),
            <uint32_t>len(payload), 0,
        )
        return self.segment

    def deduplicated(self, queue: int, digest: bytes, seq: int, at_ms: int) -> int:
        cdef DedupEntry* entry
        cdef bytes key = digest
        assert len(key) == DIGEST_BYTES, "a de-duplication key is a digest of 16 bytes"
        entry = <DedupEntry*>self.append_entry()
        entry.kind = DEDUP
        entry.reserved = entry.reserved_too = 0
        entry.queue = queue
        entry.seq = seq
        memcpy(entry.digest, <const char*>key, DIGEST_BYTES)
        fill_timed(<TimedEntry*>self.append_entry(), TIMED, at_ms, 0, 0)
        return self.segment

    # What the core appends.

    cdef int published(self, Content* content, Message message, list queues, Place* place) except -1:
        if not content.flags & PERSISTENT or not queues:
            Journal.published(self, content, message, queues, place)
            return self.events.published(content, queues) if self.history else 0
        self.append_record(content, queues, 0, place)
        return self.count(place.segment, len(queues), len(queues))

    cdef int relocated(self, Message message, list queues, Place* place) except -1:
        cdef Content content
        parts_of(message, &content)
        self.append_record(&content, queues, MOVED_FORWARD, place)
        return self.count(place.segment, len(queues), len(queues))

    cdef int settled(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        if entry.place.segment == 0:
            self.noted(SETTLE, how, queue, entry.seq, at_ms, held_ms, consumer, saturated(entry.deliveries))
            return self.uncache(entry.seq)
        self.append_run(SETTLE, how, queue, entry, at_ms, held_ms, consumer)
        return self.count(entry.place.segment, -1, 0)

    def purged(self, queue: int, keep: list[int], places: dict[int, int], seqs: list[int], at_ms: int) -> None:
        """Note that a queue was emptied but for `keep`."""
        if seqs and not any(places):
            for seq in seqs:
                self.noted(SETTLE, PURGED, queue, seq, at_ms, 0, 0)
        elif seqs:
            kept = b"".join([seq.to_bytes(8, "little") for seq in keep])
            self.append_with_area(PURGE, 0, queue, max(seqs) + 1, kept, at_ms)
            for segment, count in places.items():
                if segment:
                    self.count(segment, -count, 0)
        for seq in seqs:
            self.uncache(seq)

    def refuse_publishes(self, bint refuse) -> None:
        """Set or lift `full`: there is no room on the disk for more publishes."""
        self.full = refuse

    def counts(self) -> tuple[dict[int, int], dict[int, int]]:
        """Live and ever placed records by segment, up to date."""
        self.fold_counts()
        return self.live, self.placed

    def forget(self, segment: int) -> None:
        self.fold_counts()
        self.live.pop(segment, None)
        self.placed.pop(segment, None)
        self.tail.forget(segment)
        if self.window_segment == segment:
            self.window = None

    # Committing.

    @property
    def dirty(self) -> bool:
        """Whether something was appended since the last seal."""
        return self.index.size > 0

    @property
    def idle(self) -> bool:
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

    def seal_events(self) -> bool:
        """Close the open batch if it has events, or only those: they are written without a caller that waits for it."""
        if self.events.entries.size and not self.unwritten:
            self.mark()
            return True
        return False

    @property
    def events_bytes(self) -> int:
        """Entries for history that are in memory only."""
        return self.events.entries.size

    def mark(self) -> CommitBatch:
        """Close the open batch even if it is empty: a later commit batch proves that the ones before it were durable."""
        cdef CommitBatch batch = CommitBatch.__new__(CommitBatch)
        cdef uint64_t end
        batch.seq = self.pending
        batch.when_ms = self.clock()
        batch.segment = self.segment
        batch.offset = self.offset
        batch.body_len = <uint32_t>(self.body.size - BATCH_HEADER_BYTES)
        batch.index_len = <uint32_t>(self.index.size + self.events.entries.size)
        batch.event_bytes = <uint32_t>self.events.entries.size
        if self.index.size or self.events.entries.size:
            self.body.append(self.index.data, self.index.size)
            self.body.append(self.events.entries.data, self.events.entries.size)
            self.segment_filled = batch.segment
        batch.content = self.body
        self.index.size = self.events.entries.size = 0
        self.body = self.spare if self.spare is not None else Buffer()
        self.spare = None
        self.body.size = 0
        self.body.extend(BATCH_HEADER_BYTES)
        self.unwritten.append(batch)
        self.sealed_bytes += batch.awaited_bytes
        if not batch.is_history:
            self.awaited = batch.seq
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
        if self.index.size or self.events.entries.size:
            self.mark()
        if self.segment_filled == self.segment:
            self.segment += 1
            self.offset = SEGMENT_HEADER_BYTES
        if self.offset > SEGMENT_HEADER_BYTES:
            return False
        self.mark()
        return True

    def wrote(self, CommitBatch batch) -> None:
        """The oldest unwritten commit batch is on the disk, as durably as was asked for."""
        cdef Buffer free = batch.content
        assert self.unwritten[0] is batch, "frames are written in their order"
        del self.unwritten[0]
        self.sealed_bytes -= batch.awaited_bytes
        self.durable = batch.seq
        if batch.content.capacity > BUFFER_BYTES_MAX:
            batch.content = free = None
        elif not batch.is_history:      # of those nothing is read back
            free = self.tail.keep(batch)
        if free is not None:
            self.spare = free

    # The counters.

    cdef int count(self, uint32_t segment, int64_t live, int64_t placed) except -1:
        """Count records of a segment; runs of one segment, the usual case, touch no dictionary."""
        if segment != self.counted:
            self.fold_counts()
            self.counted = segment
        self.live_change += live
        self.placed_change += placed
        return 0

    cdef int fold_counts(self) except -1:
        if self.live_change:
            self.live[self.counted] = self.live.get(self.counted, 0) + self.live_change
        if self.placed_change:
            self.placed[self.counted] = self.placed.get(self.counted, 0) + self.placed_change
        self.live_change = self.placed_change = 0
        return 0

    # Reading back.

    cdef int locate(self, Entry* entry, Record* found) except -1:
        cdef const uint8_t* record
        cdef uint32_t crc
        cdef bint stored = False
        cdef size_t route = 0, size = entry.place.size
        if entry.place.segment == 0:
            return Journal.locate(self, entry, found)
        record = self.tail.record(&entry.place)
        if record == NULL:
            record = self.unwritten_record(&entry.place)
        if record == NULL:
            record = self.written_record(&entry.place)
            stored = True
        memcpy(&crc, record, 4)
        memcpy(&found.header_len, record + 4, 4)
        if size > RECORD_HEADER_BYTES + 1:
            route = 2 + <size_t>record[RECORD_HEADER_BYTES]
        if size > RECORD_HEADER_BYTES + route:
            route += record[RECORD_HEADER_BYTES + route - 1]
        if (
            (stored and crc != crc32c_of(0, record + 4, size - 4)) or route < 2
            or route > size - RECORD_HEADER_BYTES or found.header_len > size - RECORD_HEADER_BYTES - route
        ):
            raise damaged(entry.place.segment, entry.place.offset)
        found.route = record + RECORD_HEADER_BYTES
        found.route_len = <uint32_t>route
        found.content = found.route + route
        found.content_len = size - RECORD_HEADER_BYTES - route
        return 0

    cdef Message read(self, Entry* entry):
        cdef Record found
        cdef Message message
        if entry.place.segment == 0:
            return Journal.read(self, entry)
        self.locate(entry, &found)
        message = new_message(
            found.route[: found.route_len], found.content[: found.content_len], found.header_len,
            entry.priority, entry.flags, entry.expiry_ms, 0, 0,
        )
        message.seq = entry.seq
        message.enqueued_ms = entry.enqueued_ms
        return message

    cdef const uint8_t* written_record(self, Place* place) except NULL:
        """The address of a record in the window, which is moved over it when it is elsewhere."""
        cdef uint64_t start = self.window_offset, end
        if place.size < RECORD_HEADER_BYTES + 2:
            raise damaged(place.segment, place.offset)
        if (
            self.window is None or place.segment != self.window_segment or place.offset < start
            or <uint64_t>place.offset + place.size > start + <uint64_t>len(self.window)
        ):
            # A commit batch that is being written right now must not be seen half.
            end = self.segment_bytes + self.frame_bytes_max
            if self.unwritten and (<CommitBatch>self.unwritten[0]).segment == place.segment:
                end = (<CommitBatch>self.unwritten[0]).offset
            elif self.segment == place.segment:
                end = self.offset
            if end < <uint64_t>place.offset + place.size:
                raise damaged(place.segment, place.offset)
            self.window = None
            self.window_offset, self.window = self.reader.window(place.segment, place.offset, place.size, end)
            self.window_segment = place.segment
            start = self.window_offset
            if start > place.offset or <uint64_t>place.offset + place.size > start + <uint64_t>len(self.window):
                raise damaged(place.segment, place.offset)
        return <const uint8_t*><const char*>self.window + (place.offset - start)

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


def damaged(segment: int, offset: int) -> DamagedJournal:
    """The error that names the place of a record that cannot be read."""
    return DamagedJournal(f"seg-{segment:020d}.log is damaged at offset {offset}: restore it from a backup")
