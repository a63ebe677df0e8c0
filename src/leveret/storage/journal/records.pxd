from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from leveret.core.ports cimport EVENT_LAST, STARTED, Place

cdef extern from "crc32c.h" nogil:
    void crc32c_prepare()
    uint32_t crc32c_by_table(uint32_t crc, const uint8_t* data, size_t size)
    uint32_t crc32c_of(uint32_t crc, const void* data, size_t size)

cdef enum:
    SEGMENT_HEADER_BYTES = 64
    BATCH_HEADER_BYTES = 48
    ENTRY_BYTES = 32
    RECORD_HEADER_BYTES = 8
    TAG_BYTES = 16                  # after an encrypted commit batch
    BATCH_MAGIC = 0x4D52464C        # "LFRM"
    ENCRYPTED = 1                   # flag of a commit batch
    MOVED_FORWARD = 0x100           # flag of a PUBLISH entry, above the message's own
    ALSO_QUEUES = 7
    RUN_MAX = 0xFFFF
    SEQ_BITS = 56                   # of the first number of a run for history; above them is its step, less 1
    STEP_MAX = 256
    EVENT = 0x80                    # flag of a kind: only history reads the entry; see also Event of core.ports

cdef enum Kind:
    PUBLISH = 1
    TIMED = 2
    ALSO = 3
    DELIVER = 4
    SETTLE = 5
    RETURN = 6
    PURGE = 7
    DEFINE = 8
    DEDUP = 9

cdef packed struct BatchHeader:
    uint32_t magic
    uint32_t crc
    uint32_t body_len
    uint32_t index_len
    uint64_t seq
    uint64_t when_ms
    uint32_t salt
    uint32_t flags
    uint64_t synced

cdef packed struct RecordEntry:     # PUBLISH, PURGE, DEFINE
    uint8_t kind
    uint8_t detail
    uint16_t flags
    uint32_t queue
    uint64_t seq
    uint32_t offset
    uint32_t size
    uint64_t enqueued_ms

cdef packed struct TimedEntry:
    uint8_t kind
    uint8_t reserved
    uint16_t deliveries
    uint32_t reserved_too
    uint64_t expiry_ms
    uint64_t due_ms
    uint64_t group

cdef packed struct AlsoEntry:
    uint8_t kind
    uint8_t count
    uint16_t reserved
    uint32_t queues[7]

cdef packed struct RunEntry:        # DELIVER, SETTLE, and all that are EVENT but TIMED and DEFINE
    uint8_t kind
    uint8_t how
    uint16_t deliveries
    uint32_t queue
    uint64_t seq
    uint64_t at_and_count
    uint32_t held_ms
    uint32_t consumer

cdef packed struct ReturnEntry:
    uint8_t kind
    uint8_t how
    uint16_t deliveries
    uint32_t queue
    uint64_t seq
    uint64_t due_ms
    uint32_t held_ms
    uint32_t consumer

cdef packed struct DedupEntry:
    uint8_t kind
    uint8_t reserved
    uint16_t reserved_too
    uint32_t queue
    uint64_t seq
    uint8_t digest[16]

cdef inline bint is_run_event(uint8_t kind) noexcept:
    """Whether an entry for history is laid out as a run."""
    cdef uint8_t plain = kind & ~EVENT
    return kind & EVENT and (
        plain == PUBLISH or plain == DELIVER or plain == SETTLE or plain == RETURN or STARTED <= plain <= EVENT_LAST
    )

cdef inline uint64_t seq_in(const RunEntry* run, uint64_t at) noexcept:
    """The number of a message of a run."""
    if run.kind & EVENT:
        return (run.seq & ((<uint64_t>1 << SEQ_BITS) - 1)) + at * ((run.seq >> SEQ_BITS) + 1)
    return run.seq + at

cdef inline uint64_t rest_of(const BatchHeader* header) noexcept:
    """The length of a commit batch after its header."""
    return <uint64_t>header.body_len + header.index_len + (TAG_BYTES if header.flags & ENCRYPTED else 0)

cdef inline bint is_whole(const uint8_t* batch, uint64_t left, uint32_t salt, BatchHeader* header) noexcept:
    """Read the header of a commit batch; whether all of it is here, undamaged, and of a segment with this salt."""
    if left < BATCH_HEADER_BYTES:
        return False
    memcpy(header, batch, BATCH_HEADER_BYTES)
    return (
        header.magic == BATCH_MAGIC and header.salt == salt and header.index_len % ENTRY_BYTES == 0
        and rest_of(header) <= left - BATCH_HEADER_BYTES
        and header.crc == crc32c_of(0, batch + 8, BATCH_HEADER_BYTES - 8 + rest_of(header))
    )

cdef class Buffer:
    cdef uint8_t* data
    cdef size_t size
    cdef size_t capacity
    cdef uint8_t* extend(self, size_t more) except NULL
    cdef int append(self, const void* data, size_t size) except -1
    cdef bytes copied(self)

cdef inline uint16_t saturated(uint32_t deliveries) noexcept:
    return <uint16_t>min(deliveries, <uint32_t>0xFFFF)

cdef inline void fill_record(
    RecordEntry* entry, uint8_t kind, uint8_t detail, uint32_t queue, uint64_t seq, uint32_t offset, uint32_t size,
    uint64_t at_ms
) noexcept:
    """An entry whose content lies among the bodies."""
    entry.kind, entry.detail, entry.flags, entry.queue = kind, detail, 0, queue
    entry.seq, entry.offset, entry.size, entry.enqueued_ms = seq, offset, size, at_ms

cdef inline void fill_timed(TimedEntry* timed, uint8_t kind, uint64_t expiry_ms, uint64_t due_ms, uint64_t group) noexcept:
    timed.kind = kind
    timed.reserved = timed.deliveries = timed.reserved_too = 0
    timed.expiry_ms, timed.due_ms, timed.group = expiry_ms, due_ms, group

cdef inline void fill_run(
    RunEntry* run, uint8_t kind, uint8_t how, uint32_t queue, uint64_t seq, uint64_t at_ms, uint32_t value,
    uint32_t consumer, uint16_t deliveries
) noexcept:
    """A run of one message."""
    run.kind, run.how, run.deliveries, run.queue, run.seq = kind, how, deliveries, queue, seq
    run.at_and_count = at_ms << 16 | 1
    run.held_ms, run.consumer = value, consumer

cdef inline bint is_at(Buffer entries, const void* entry, size_t back) noexcept:
    """Whether the same entry begins so far from the end."""
    return entries.size >= back and memcmp(entries.data + entries.size - back, entry, ENTRY_BYTES) == 0

cdef inline bint goes_on(Buffer entries, const RunEntry* one, size_t back) noexcept:
    """Let the entry so far from the end also stand for this message, if it says the same of the ones before it, or of none."""
    cdef RunEntry* run
    cdef uint64_t count, step
    if entries.size < back:
        return False
    run = <RunEntry*>(entries.data + entries.size - back)
    count = run.at_and_count & RUN_MAX
    if (
        run.kind == one.kind and run.how == one.how and run.deliveries == one.deliveries and run.queue == one.queue
        and run.at_and_count >> 16 == one.at_and_count >> 16 and run.held_ms == one.held_ms
        and run.consumer == one.consumer and count < RUN_MAX
    ):
        if run.kind & EVENT and count == 1 and run.seq < one.seq:
            step = one.seq - run.seq - 1
            if step < STEP_MAX:
                run.seq |= step << SEQ_BITS
        if seq_in(run, count) == one.seq or run.seq == one.seq == 0:
            run.at_and_count += 1
            return True
    return False

cdef class CommitBatch:
    cdef readonly uint64_t seq
    cdef readonly uint64_t when_ms
    cdef readonly uint32_t segment
    cdef readonly uint32_t offset
    cdef readonly uint32_t body_len
    cdef readonly uint32_t index_len
    cdef readonly uint32_t event_bytes      # of the index, what only history needs
    cdef Buffer content             # room for the header, then bodies, then entries

cdef class WrittenTail:
    cdef list frames                # oldest first; those before `first` are gone
    cdef Py_ssize_t first
    cdef Py_ssize_t hit             # where the last record was found: the next one is mostly near
    cdef readonly uint64_t bytes
    cdef uint64_t bytes_max
    cdef Buffer keep(self, CommitBatch batch)
    cdef Buffer drop(self)
    cdef const uint8_t* record(self, Place* place) noexcept
    cdef bint holds(self, Py_ssize_t index, Place* place) noexcept
    cdef int forget(self, uint32_t segment) except -1
