"""Reading commit batches: is one whole, and what do its entries say.

Every length is read as an unsigned number and compared with what remains before it is used: a commit batch that passes its
checksum and yet points outside of itself is refused as damaged, an entry of a kind that is not known as unknown.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.ports cimport Entry, JournaledState
from leveret.storage.journal.records cimport (
    ALSO, ALSO_QUEUES, DEDUP, DEFINE, DELIVER, ENTRY_BYTES, EVENT, BATCH_HEADER_BYTES, MOVED_FORWARD, PUBLISH, PURGE,
    RECORD_HEADER_BYTES, RETURN, RUN_MAX, SETTLE, TIMED, AlsoEntry, DedupEntry, BatchHeader, RecordEntry, ReturnEntry,
    RunEntry, TimedEntry, crc32c_prepare, is_run_event, is_whole, rest_of, seq_in,
)

from leveret.core.errors import DamagedJournal, UnknownFormat

crc32c_prepare()


cdef class BatchHead:
    """The header of a whole commit batch, and where the commit batch ends."""

    cdef readonly uint64_t seq, when_ms, synced, end
    cdef readonly uint32_t body_len, index_len, salt, flags


def read_head(const uint8_t[::1] data, uint64_t offset, uint32_t salt) -> BatchHead | None:
    """The header of the commit batch at an offset, or None when there is no whole commit batch of this segment."""
    cdef BatchHeader header
    cdef BatchHead head
    cdef uint64_t size = <uint64_t>data.shape[0]
    if offset >= size or not is_whole(&data[offset], size - offset, salt, &header):
        return None
    head = BatchHead.__new__(BatchHead)
    head.seq = header.seq
    head.when_ms = header.when_ms
    head.synced = header.synced
    head.body_len = header.body_len
    head.index_len = header.index_len
    head.salt = header.salt
    head.flags = header.flags
    head.end = offset + BATCH_HEADER_BYTES + rest_of(&header)
    return head


cdef class Replay:
    """Plays the entries of commit batches into a state; counts what it sees."""

    cdef JournaledState state
    cdef readonly uint64_t entries
    cdef readonly dict placed  # type: dict[int, int]  # segment -> records put there
    cdef uint64_t records               # of the commit batch that is being played
    cdef uint32_t segment
    cdef uint64_t area_offset           # where the bodies of the commit batch begin in the segment
    cdef const uint8_t* area
    cdef uint64_t area_size
    cdef const uint8_t* index
    cdef uint64_t index_size

    def __init__(self, JournaledState state, placed: dict[int, int]):
        self.state = state
        self.placed = placed

    def batch(self, const uint8_t[::1] data, uint64_t start, BatchHead head, uint32_t segment, uint64_t offset) -> None:
        """Play one commit batch whose plain bodies begin at `start` of data and at `offset` of the segment."""
        cdef uint64_t size = <uint64_t>data.shape[0], position = 0
        if start > size or <uint64_t>head.body_len + head.index_len > size - start:
            raise ValueError("the frame is not whole")
        if head.index_len == 0:
            return
        self.segment = segment
        self.area_offset = offset
        self.area = &data[start]
        self.area_size = head.body_len
        self.index = self.area + head.body_len
        self.index_size = head.index_len
        self.records = 0
        while position < self.index_size:
            position = self.step(position)
        if self.records:
            self.placed[segment] = self.placed.get(segment, 0) + self.records
        self.entries += self.index_size // ENTRY_BYTES

    cdef uint64_t step(self, uint64_t position) except 0:
        """Play the entry at a position, with those that belong to it; give the position of the next."""
        cdef const uint8_t* entry = self.index + position
        cdef const RunEntry* run = <const RunEntry*>entry
        cdef const ReturnEntry* back = <const ReturnEntry*>entry
        cdef uint8_t kind = entry[0]
        if kind == PUBLISH:
            return self.publish(position)
        if kind == SETTLE:
            self.state.replay_settle(run.queue, run.seq, run.at_and_count & RUN_MAX)
        elif kind == DELIVER:
            self.state.replay_deliver(run.queue, run.seq, run.at_and_count & RUN_MAX, run.deliveries)
        elif kind == RETURN:
            self.state.replay_return(back.queue, back.seq, back.deliveries, back.due_ms)
        elif kind == DEDUP:
            return self.dedup(position)
        elif kind == PURGE or kind == DEFINE:
            self.area_entry(<const RecordEntry*>entry)
        elif is_run_event(kind) or kind == TIMED | EVENT or kind == DEFINE | EVENT:
            if kind == PUBLISH | EVENT:
                self.state.replay_numbers(run.queue, seq_in(run, (run.at_and_count & RUN_MAX) - 1))
        else:
            raise UnknownFormat(
                f"seg-{self.segment:020d}.log holds an entry of kind {kind}: it was written by a newer version; use that"
            )
        return position + ENTRY_BYTES

    cdef uint64_t publish(self, uint64_t position) except 0:
        cdef const RecordEntry* record = <const RecordEntry*>(self.index + position)
        cdef const TimedEntry* timed
        cdef const AlsoEntry* also
        cdef Entry entry
        cdef Entry one
        cdef uint64_t due_ms = 0, group = 0
        cdef uint32_t count = 1, i
        cdef bint moved = record.flags & MOVED_FORWARD
        entry.overhead = self.overhead(record)
        entry.seq = record.seq
        entry.enqueued_ms = record.enqueued_ms
        entry.expiry_ms = 0
        entry.place.segment = self.segment
        entry.place.offset = <uint32_t>(self.area_offset + record.offset)
        entry.place.size = record.size
        entry.deliveries = 0
        entry.priority = record.detail
        entry.flags = <uint8_t>record.flags
        position += ENTRY_BYTES
        if position < self.index_size and self.index[position] == TIMED:
            timed = <const TimedEntry*>(self.index + position)
            entry.expiry_ms = timed.expiry_ms
            entry.deliveries = timed.deliveries
            due_ms = timed.due_ms
            group = timed.group
            position += ENTRY_BYTES
        one = entry             # each queue may change its own
        self.state.replay_publish(record.queue, &one, due_ms, group, moved)
        while position < self.index_size and self.index[position] == ALSO:
            also = <const AlsoEntry*>(self.index + position)
            if also.count > ALSO_QUEUES:
                raise self.damaged()
            for i in range(also.count):
                one = entry
                self.state.replay_publish(also.queues[i], &one, due_ms, group, moved)
            count += also.count
            position += ENTRY_BYTES
        self.records += count
        return position

    cdef uint64_t dedup(self, uint64_t position) except 0:
        cdef const DedupEntry* entry = <const DedupEntry*>(self.index + position)
        cdef const TimedEntry* timed = <const TimedEntry*>(self.index + position + ENTRY_BYTES)
        position += ENTRY_BYTES
        if position >= self.index_size or timed.kind != TIMED:
            raise self.damaged()
        self.state.replay_dedup(entry.queue, entry.digest[:16], entry.seq, timed.expiry_ms, self.segment)
        return position + ENTRY_BYTES

    cdef uint16_t overhead(self, const RecordEntry* entry) except? 0:
        """The bytes of a record that are not body, as far as 16 bits go."""
        cdef const uint8_t* record = self.area + entry.offset
        cdef uint64_t size = entry.size, used = RECORD_HEADER_BYTES + 2
        cdef uint32_t header_len
        self.check_area(entry.offset, entry.size)
        if size < used or record[RECORD_HEADER_BYTES] > size - used:
            raise self.damaged()
        used += record[RECORD_HEADER_BYTES]
        if record[used - 1] > size - used:
            raise self.damaged()
        used += record[used - 1]
        memcpy(&header_len, record + 4, 4)
        if header_len > size - used:
            raise self.damaged()
        return <uint16_t>min(used + header_len, <uint64_t>0xFFFF)

    cdef int area_entry(self, const RecordEntry* entry) except -1:
        """Play an entry whose content lies among the bodies."""
        cdef bytes content
        self.check_area(entry.offset, entry.size)
        content = self.area[entry.offset : entry.offset + entry.size]
        if entry.kind == DEFINE:
            self.state.replay_definition(entry.detail, content, self.segment)
            return 0
        if len(content) % 8:
            raise self.damaged()
        keep = [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content), 8)]
        self.state.replay_purge(entry.queue, entry.seq, keep)
        return 0

    cdef int check_area(self, uint64_t offset, uint64_t size) except -1:
        """Refuse an entry that points outside of its commit batch."""
        if offset > self.area_size or size > self.area_size - offset:
            raise self.damaged()
        return 0

    cdef object damaged(self):
        """The error for a commit batch that contradicts itself."""
        return DamagedJournal(
            f"seg-{self.segment:020d}.log: the frame whose bodies begin at {self.area_offset} contradicts itself: "
            "restore the file from a backup"
        )
