from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.core.ports cimport Content
from leveret.storage.journal.records cimport Buffer

cdef enum:
    BLOCK_HEADER_BYTES = 64
    RECORD_HEADER_BYTES = 28
    BLOCK_MAGIC = 0x4B4C424C        # "LBLK"
    LABEL_BYTES_MAX = 255           # of a filter value, of the name of a producer
    ROUTE_BYTES_MAX = 512           # two short strings
    UNFILTERED = 1                  # flag of a block: some record has no filter value
    PRODUCED = 2                    # flag of a block: some record names its producer
    ENCRYPTED = 4                   # flag of a block
    DERIVED = 8                     # flag of an encrypted block: by a key of its segment, not by the master key

cdef packed struct BlockHeader:
    uint32_t magic
    uint32_t crc
    uint32_t size
    uint32_t count
    uint64_t first
    uint64_t first_ms
    uint64_t last_ms
    uint64_t synced
    uint32_t salt
    uint32_t flags
    uint64_t filters

cdef packed struct RecordHeader:
    uint32_t size
    uint32_t header_len
    uint64_t timestamp_ms
    uint64_t sequence
    uint16_t route_len
    uint8_t filter_len
    uint8_t producer_len

cdef inline const RecordHeader* record_at(const uint8_t* at, const uint8_t* end, uint64_t* fixed) noexcept:
    """The header of the record here, and how long the record is without its content; NULL: it contradicts itself."""
    cdef const RecordHeader* header = <const RecordHeader*>at
    if end - at < RECORD_HEADER_BYTES:
        return NULL
    fixed[0] = RECORD_HEADER_BYTES + <uint64_t>header.route_len + header.filter_len + header.producer_len
    if header.size > <uint64_t>(end - at) or fixed[0] + header.header_len > header.size:
        return NULL
    return header

cdef class Block:
    cdef readonly uint64_t first            # the offset of its first record
    cdef readonly uint32_t count
    cdef readonly uint64_t first_ms
    cdef readonly uint64_t last_ms
    cdef readonly dict producers  # type: dict[bytes, int] | None  # producer -> the last sequence number in here
    cdef uint64_t filters
    cdef uint32_t flags
    cdef Buffer content                     # room for the header, then the records
    cdef int begin(self, uint64_t first) except -1
    cdef int add(self, Content* content, bytes filter_value, bytes producer, uint64_t sequence) except -1

cdef class StoredRecord:
    cdef readonly uint64_t offset
    cdef readonly uint64_t timestamp_ms
    cdef readonly uint64_t sequence
    cdef readonly uint32_t header_len
    cdef readonly bytes route
    cdef readonly bytes content
    cdef readonly bytes filter_value
    cdef readonly bytes producer

cdef class BlockHead:
    cdef readonly uint64_t first
    cdef readonly uint32_t count
    cdef readonly uint64_t first_ms
    cdef readonly uint64_t last_ms
    cdef readonly uint64_t synced
    cdef readonly uint32_t flags
    cdef readonly uint64_t filters
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end

cdef class Appender:
    cdef readonly uint64_t next_offset
    cdef readonly uint64_t last_ms
    cdef readonly uint64_t sealed_bytes     # of blocks that are not written, without the one being filled
    cdef public object refusal  # type: Exception | None  # why nothing is taken now, or None
    cdef uint64_t block_bytes
    cdef readonly object producers  # type: Producers
    cdef Block block
    cdef Block spare
    cdef list sealed
    cdef bint take(
        self, Content* content, uint64_t now_ms, bytes filter_value, bytes producer, uint64_t sequence
    ) except -1
    cdef int seal(self) except -1
