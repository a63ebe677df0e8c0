"""The journal on files, as the core sees it: what it appends, counts and reads back.

A record can be read wherever it is: in a commit batch that is not yet written, in one that was written lately, in a segment.
Only the last waits for a disk. Messages that are not to be durable are objects in memory and are never given up.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.message cimport PERSISTENT, Message, new_message
from leveret.core.ports cimport Content, Entry, Journal, Place, Record, parts_of
from leveret.storage.journal.batch cimport OpenBatches
from leveret.storage.journal.records cimport (
    MOVED_FORWARD, PURGE, RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, SETTLE, CommitBatch, crc32c_of, crc32c_prepare,
)

from leveret.core.errors import DamagedJournal

crc32c_prepare()


cdef class FileJournal(OpenBatches):
    """Appends to commit batches and reads back from them; `leveret.storage.journal.store` opens one on a directory."""

    def __init__(self, options, clock):
        OpenBatches.__init__(self, options, clock)
        self.live = {}
        self.placed = {}

    def begin(self, uint64_t seq, uint32_t segment, uint32_t offset, reader, dict live, dict placed) -> None:
        """Take up a log whose next commit batch is number `seq` at this place."""
        self.pending = seq
        self.durable = seq - 1
        self.segment = segment
        self.segment_filled = segment if offset > SEGMENT_HEADER_BYTES else 0   # a new one may not have a file yet
        self.offset = offset
        self.reader = reader
        self.live = live
        self.placed = placed

    # What the core appends.

    cdef int published(self, Content* content, Message message, list queues, Place* place) except -1:
        if not content.flags & PERSISTENT or not queues:
            return Journal.published(self, content, message, queues, place)
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
            return self.uncache(entry.seq)
        self.append_run(SETTLE, how, queue, entry, at_ms, held_ms, consumer)
        return self.count(entry.place.segment, -1, 0)

    def purged(self, queue: int, keep: list[int], places: dict[int, int], seqs: list[int]) -> None:
        """Note that a queue was emptied but for `keep`."""
        if seqs and any(places):
            kept = b"".join([seq.to_bytes(8, "little") for seq in keep])
            self.append_with_area(PURGE, 0, queue, max(seqs) + 1, kept)
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


def damaged(segment: int, offset: int) -> DamagedJournal:
    """The error that names the place of a record that cannot be read."""
    return DamagedJournal(f"seg-{segment:020d}.log is damaged at offset {offset}: restore it from a backup")
