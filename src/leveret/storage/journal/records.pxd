from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.ports cimport Place

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

cdef packed struct RunEntry:        # DELIVER, SETTLE
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

cdef class CommitBatch:
    cdef readonly uint64_t seq
    cdef readonly uint64_t when_ms
    cdef readonly uint32_t segment
    cdef readonly uint32_t offset
    cdef readonly uint32_t body_len
    cdef readonly uint32_t index_len
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
