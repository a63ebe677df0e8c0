"""The journal on files, as the core sees it: appends to the open frame, reads records back.

    open frame --seal()--> unwritten frames --commit.py--> segment
    (appended to)          (oldest first)                  (durable)

A record can be read at each of these stages. Nothing here waits for a disk but `read` of a cold record. The owner
serialises all calls: they come from one thread, or under one lock.

Messages stay in memory while they fit: a new one is cached if there is room, or if the oldest cached one has had
its chance for some seconds and makes room. Messages that are only in memory are never given up.
"""

from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.message cimport PERSISTENT, Message, new_message
from leveret.core.ports cimport Entry, Journal, Place
from leveret.journal.fifo cimport Fifo
from leveret.journal.records cimport (
    ALSO, ALSO_QUEUES, DEDUP, DEFINE, DELIVER, ENTRY_BYTES, FRAME_HEADER_BYTES, MOVED_FORWARD, PUBLISH, PURGE,
    RECORD_HEADER_BYTES, RETURN, RUN_MAX, SEGMENT_HEADER_BYTES, SETTLE, TAG_BYTES, TIMED, AlsoEntry, Buffer,
    DedupEntry, Frame, RecordEntry, ReturnEntry, RunEntry, TimedEntry, crc32c_of, crc32c_prepare,
)

from leveret.core.errors import DamagedJournal, JournalFailed, MessageNotFound, MessageTooLarge

crc32c_prepare()

cdef enum:
    # A queue's index keeps sizes in 24 bits; the blob store takes what is larger.
    RECORD_BYTES_MAX = 0xFFFFFF
    # Offsets in a frame have 32 bits. The owner stops publishers long before, at unwritten_bytes_max.
    FRAME_BYTES_MAX = 1 << 30
    DIGEST_BYTES = 16
    CACHED_AT_LEAST_MS = 5000
    # A buffer that grew beyond this in a burst is not kept for the next frame.
    SPARE_BYTES_MAX = 8 << 20
    FIFO_SLACK = 1024


cdef class FileJournal(Journal):
    """Appends to frames and reads back from them; `leveret.journal.store` opens one on a directory."""

    def __init__(self, options, clock):
        self.segment_bytes = options.segment_bytes
        self.cache_bytes = options.cache_bytes
        self.unwritten_bytes_max = options.unwritten_bytes_max
        self.frame_bytes_max = FRAME_BYTES_MAX
        self.tag_bytes = TAG_BYTES if options.keys else 0
        self.clock = clock
        self.live = {}
        self.placed = {}
        self.unwritten = []
        self.cached = Fifo()
        self.index = Buffer()
        self.body = Buffer()
        self.body.extend(FRAME_HEADER_BYTES)

    def begin(
        self, uint64_t seq, uint32_t segment, uint32_t offset, uint64_t last_message, reader, dict live, dict placed
    ) -> None:
        """Take up a log whose next frame is number `seq` at this place."""
        self.pending = seq
        self.durable = seq - 1
        self.segment = segment
        self.offset = offset
        self.last_message = self.sealed_message = last_message
        self.reader = reader
        self.live = live
        self.placed = placed

    # What the core appends.

    cdef int published(self, Message message, list queues, Place* place) except -1:
        if not message.flags & PERSISTENT or not queues:
            self.cached_bytes += <uint64_t>len(message.content)
            return Journal.published(self, message, queues, place)
        self.append_message(message, queues, 0, place)
        message.references = <uint32_t>len(queues)
        return self.keep(message)

    cdef int relocated(self, Message message, list queues, Place* place) except -1:
        return self.append_message(message, queues, MOVED_FORWARD, place)

    cdef int append_message(self, Message message, list queues, uint16_t flags, Place* place) except -1:
        """Append a record and the entry that puts it into its queues."""
        cdef size_t route = len(message.route), content = len(message.content)
        cdef size_t size = RECORD_HEADER_BYTES + route + content
        cdef uint8_t* record
        cdef RecordEntry* entry
        cdef TimedEntry* timed
        if size > RECORD_BYTES_MAX:
            raise MessageTooLarge(f"a record of {size} bytes is over {RECORD_BYTES_MAX}: keep such bodies in the blob store")
        place.segment = self.segment
        place.offset = self.offset + self.append_area(NULL, size) + FRAME_HEADER_BYTES
        place.size = <uint32_t>size
        record = self.body.data + self.body.size - size
        memcpy(record + 4, &message.header_len, 4)
        memcpy(record + RECORD_HEADER_BYTES, <const char*>message.route, route)
        memcpy(record + RECORD_HEADER_BYTES + route, <const char*>message.content, content)
        (<uint32_t*>record)[0] = crc32c_of(0, record + 4, size - 4)
        entry = <RecordEntry*>self.append_entry()
        entry.kind = PUBLISH
        entry.detail = message.priority
        entry.flags = message.flags | flags
        entry.queue = queues[0]
        entry.seq = message.seq
        entry.offset = place.offset - self.offset - FRAME_HEADER_BYTES
        entry.size = <uint32_t>size
        entry.enqueued_ms = message.enqueued_ms
        if message.expiry_ms or message.due_ms or message.group:
            timed = <TimedEntry*>self.append_entry()
            timed.kind = TIMED
            timed.reserved = timed.deliveries = timed.reserved_too = 0
            timed.expiry_ms = message.expiry_ms
            timed.due_ms = message.due_ms
            timed.group = message.group
        if len(queues) > 1:
            self.append_queues(queues)
        if message.seq > self.last_message:
            self.last_message = message.seq
        return self.count(self.segment, len(queues), len(queues))

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
        """Append to the bodies of the open frame, or make room there; give the offset among them."""
        cdef uint32_t offset = <uint32_t>(self.body.size - FRAME_HEADER_BYTES)
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

    cdef int settled(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        if entry.place.segment:
            self.append_run(SETTLE, how, queue, entry, at_ms, held_ms, consumer)
            self.count(entry.place.segment, -1, 0)
        return self.uncache(entry.seq)

    def purged(self, queue: int, keep: list[int], places: dict[int, int], seqs: list[int]) -> None:
        """Note that a queue was emptied but for `keep`."""
        cdef RecordEntry* entry
        cdef bytes kept
        cdef uint32_t offset
        if seqs and any(places):
            kept = b"".join([seq.to_bytes(8, "little") for seq in keep])
            offset = self.append_area(<const char*>kept, len(kept))
            entry = <RecordEntry*>self.append_entry()
            entry.kind = PURGE
            entry.detail = 0
            entry.flags = 0
            entry.queue = queue
            entry.seq = max(seqs) + 1
            entry.offset = offset
            entry.size = <uint32_t>len(kept)
            entry.enqueued_ms = 0
            for segment, count in places.items():
                if segment:
                    self.count(segment, -count, 0)
        for seq in seqs:
            self.uncache(seq)

    def defined(self, what: int, payload: bytes) -> int:
        """Append a definition; give the segment that will hold it."""
        cdef RecordEntry* entry
        cdef bytes definition = payload
        cdef uint32_t offset = self.append_area(<const char*>definition, len(definition))
        entry = <RecordEntry*>self.append_entry()
        entry.kind = DEFINE
        entry.detail = what
        entry.flags = 0
        entry.queue = 0
        entry.seq = 0
        entry.offset = offset
        entry.size = <uint32_t>len(definition)
        entry.enqueued_ms = 0
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

    def refuse_publishes(self, bint refuse) -> None:
        """Set or lift `full`: there is no room on the disk for more publishes."""
        self.full = refuse

    # What commits: seal, write elsewhere, wrote.

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
        return self.sealed_bytes + self.body.size - FRAME_HEADER_BYTES + self.index.size

    @property
    def behind(self) -> bool:
        """Whether publishers must wait for the disk."""
        return self.unwritten_bytes > self.unwritten_bytes_max

    def next_frame(self) -> Frame | None:
        """The oldest frame that is not yet written, the open one being sealed when there is no other."""
        return self.unwritten[0] if self.unwritten else self.seal()

    def seal(self) -> Frame | None:
        """Close the open frame, if something is in it."""
        return self.mark() if self.index.size else None

    def mark(self) -> Frame:
        """Close the open frame even if it is empty: a later frame proves that the ones before it were durable."""
        cdef Frame frame = Frame.__new__(Frame)
        cdef uint64_t end
        frame.seq = self.pending
        frame.when_ms = self.clock()
        frame.messages_before = self.sealed_message
        self.sealed_message = self.last_message
        frame.segment = self.segment
        frame.offset = self.offset
        frame.body_len = <uint32_t>(self.body.size - FRAME_HEADER_BYTES)
        frame.index_len = <uint32_t>self.index.size
        if self.index.size:
            self.body.append(self.index.data, self.index.size)
        frame.content = self.body
        self.index.size = 0
        self.body = self.spare if self.spare is not None else Buffer()
        self.spare = None
        self.body.size = 0
        self.body.extend(FRAME_HEADER_BYTES)
        self.unwritten.append(frame)
        self.sealed_bytes += frame.body_len + frame.index_len
        self.pending += 1
        end = <uint64_t>frame.offset + frame.content.size + self.tag_bytes
        if end >= self.segment_bytes:
            self.segment += 1
            self.offset = SEGMENT_HEADER_BYTES
        else:
            self.offset = <uint32_t>end
        return frame

    def roll(self) -> None:
        """Let the next frame begin a new segment, unless it does already."""
        if self.offset > SEGMENT_HEADER_BYTES:
            self.seal()
        if self.offset > SEGMENT_HEADER_BYTES:
            self.segment += 1
            self.offset = SEGMENT_HEADER_BYTES

    def wrote(self, Frame frame) -> None:
        """The oldest unwritten frame is on the disk, as durably as was asked for."""
        assert self.unwritten[0] is frame, "frames are written in their order"
        del self.unwritten[0]
        self.sealed_bytes -= frame.body_len + frame.index_len
        self.durable = frame.seq
        if frame.content.capacity <= SPARE_BYTES_MAX:
            self.spare = frame.content
        frame.content = None

    def counts(self) -> tuple[dict[int, int], dict[int, int]]:
        """Live and ever placed records by segment, up to date."""
        self.fold_counts()
        return self.live, self.placed

    def forget(self, segment: int) -> None:
        """A segment was removed."""
        self.fold_counts()
        self.live.pop(segment, None)
        self.placed.pop(segment, None)
        if self.window_segment == segment:
            self.window = None

    # The cache and the counters.

    cdef int keep(self, Message message) except -1:
        """Cache a message if the rule of the cache allows it."""
        cdef uint64_t size = <uint64_t>len(message.content)
        cdef object oldest
        if self.cached_bytes + size > self.cache_bytes:
            self.trim()
            if self.cached.length == 0:
                return 0
            oldest = self.bodies[self.cached.ring[self.cached.head]]
            if message.enqueued_ms < (<Message>oldest).enqueued_ms + CACHED_AT_LEAST_MS:
                return 0
            del self.bodies[self.cached.pop()]
            self.cached_bytes -= <uint64_t>len((<Message>oldest).content)
            if self.cached_bytes + size > self.cache_bytes:
                return 0
        elif self.cached.length > 2 * <size_t>len(self.bodies) + FIFO_SLACK:
            self.trim()
        self.bodies[message.seq] = message
        self.cached_bytes += size
        return self.cached.push(message.seq)

    cdef int trim(self) except -1:
        """Skip cached messages that have left; when most have, forget them wherever they stand."""
        cdef size_t i, length
        cdef uint64_t seq
        while self.cached.length and self.cached.ring[self.cached.head] not in self.bodies:
            self.cached.pop()
        if self.cached.length > 2 * <size_t>len(self.bodies) + FIFO_SLACK:
            length = self.cached.length
            for i in range(length):
                seq = self.cached.pop()
                if seq in self.bodies:
                    self.cached.push(seq)
        return 0

    cdef int uncache(self, uint64_t seq) except -1:
        cdef object message = self.bodies.get(seq)
        if message is not None:
            (<Message>message).references -= 1
            if (<Message>message).references == 0:
                del self.bodies[seq]
                self.cached_bytes -= <uint64_t>len((<Message>message).content)
        return 0

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

    cdef Message read(self, Entry* entry):
        cdef object cached = self.bodies.get(entry.seq)
        cdef const uint8_t* record
        cdef Message message
        cdef uint32_t crc, header_len
        cdef size_t route = 0, size = entry.place.size
        if cached is not None:
            return <Message>cached
        if entry.place.segment == 0:
            raise MessageNotFound(f"message {entry.seq} was only in memory and has left")
        record = self.unwritten_record(&entry.place)
        if record == NULL:
            record = self.written_record(&entry.place)
        memcpy(&crc, record, 4)
        memcpy(&header_len, record + 4, 4)
        if size > RECORD_HEADER_BYTES + 1:
            route = 2 + <size_t>record[RECORD_HEADER_BYTES]
        if size > RECORD_HEADER_BYTES + route:
            route += record[RECORD_HEADER_BYTES + route - 1]
        if (
            crc != crc32c_of(0, record + 4, size - 4) or route < 2
            or route > size - RECORD_HEADER_BYTES or header_len > size - RECORD_HEADER_BYTES - route
        ):
            raise damaged(entry.place.segment, entry.place.offset)
        message = new_message(
            record[RECORD_HEADER_BYTES : RECORD_HEADER_BYTES + route], record[RECORD_HEADER_BYTES + route : size],
            header_len, entry.priority, entry.flags, entry.expiry_ms, 0, 0,
        )
        message.seq = entry.seq
        message.enqueued_ms = entry.enqueued_ms
        return message

    cdef const uint8_t* unwritten_record(self, Place* place) noexcept:
        """The address of a record that is not in a file yet, or NULL."""
        cdef Frame frame
        if place.segment == self.segment and place.offset >= self.offset:
            if place.offset - self.offset + <uint64_t>place.size <= self.body.size:
                return self.body.data + (place.offset - self.offset)
            return NULL
        for frame in self.unwritten:
            if frame.segment == place.segment and place.offset >= frame.offset:
                if place.offset - frame.offset + <uint64_t>place.size <= frame.content.size:
                    return frame.content.data + (place.offset - frame.offset)
        return NULL

    cdef const uint8_t* written_record(self, Place* place) except NULL:
        """The address of a record in the window, which is moved over it when it is elsewhere."""
        cdef uint64_t start = self.window_offset, end
        if place.size < RECORD_HEADER_BYTES + 2:
            raise damaged(place.segment, place.offset)
        if (
            self.window is None or place.segment != self.window_segment or place.offset < start
            or <uint64_t>place.offset + place.size > start + <uint64_t>len(self.window)
        ):
            # A frame that is being written right now must not be seen half.
            end = self.segment_bytes + FRAME_BYTES_MAX
            if self.unwritten and (<Frame>self.unwritten[0]).segment == place.segment:
                end = (<Frame>self.unwritten[0]).offset
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


def damaged(segment: int, offset: int) -> DamagedJournal:
    """The error that names the place of a record that cannot be read."""
    return DamagedJournal(f"seg-{segment:020d}.log is damaged at offset {offset}: restore it from a backup")
