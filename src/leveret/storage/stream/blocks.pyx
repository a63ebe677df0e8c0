"""The bytes of a block: the records of a stream that were written together, never changed afterwards.

    segment  | header 64 | block | block | ...                            little-endian throughout
    block    | header 64 | record | record | ...

    header   | magic 4 | crc32c 4 | size 4 | count 4 | first offset 8 | first_ms 8 | last_ms 8 | synced 8 |
             | salt 4 | flags 4 | filters 8 |
             crc32c is of all that follows it. size is that of the records. Offsets have no gaps over the whole stream.
             synced is how many records of the stream were known durable when this block was written: a bad block
             below the `synced` of a later one was durable once, so it is damage and not a torn write.
             filters has two bits for each filter value: a block that lacks them need not be looked into.
             An encrypted block has its records sealed (sealing.py), and size is what they take then.
             A block of size 0 stands for so many records that were lost (recovery.py).
    record   | size 4 | header_len 4 | timestamp_ms 8 | sequence 8 | route_len 2 | filter_len 1 | producer_len 1 |
             | route: exchange and routing key, short strings | filter value | producer | content |
             size is that of the whole record. content is the properties, header_len long, and the body, as they came.

Timestamps never fall, so that they can be searched. A record without a producer has no sequence number.

`Appender` is the end of a stream in memory: records become blocks there, before they are written. `BlockColumns` packs
the records of a range of offsets for programs that compute on them: no record becomes an object. Values of different
lengths (route, header, body, filter value, producer) lie one behind the other, with their ends beside them; those that
were not asked for are not copied.
"""

cimport cython
from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcmp, memcpy

from leveret.core.errors import InvalidArgument, MessageTooLarge
from leveret.storage.journal.records cimport crc32c_of, crc32c_prepare

crc32c_prepare()

assert sizeof(BlockHeader) == BLOCK_HEADER_BYTES
assert sizeof(RecordHeader) == RECORD_HEADER_BYTES

MAGIC = b"LBLK"
"""How every block begins."""
HEAD_BYTES: int = BLOCK_HEADER_BYTES
RECORD_BYTES_MAX: int = 32 << 20
"""Room for the largest message and its properties; a reader has to hold one at least."""
BLOCK_BYTES_MAX: int = 64 << 20
"""No block says that it is larger: a damaged length must not become that much memory."""
cdef enum:
    TEXT_COUNT = 5

TEXTS: tuple[str, ...] = ("route", "filter_value", "producer", "header", "body")
"""The values of a record, in their order."""

cdef uint64_t _RECORD_BYTES_MAX = RECORD_BYTES_MAX
cdef uint64_t _BLOCK_BYTES_MAX = BLOCK_BYTES_MAX


cdef uint64_t filter_bits(const uint8_t* value, size_t size) noexcept:
    cdef uint32_t crc = crc32c_of(0, value, size)
    return (<uint64_t>1 << (crc & 63)) | (<uint64_t>1 << ((crc >> 16) & 63))


cdef class Block:
    """Records on their way to the disk."""

    def __init__(self, uint64_t first):
        """Start empty; the first record will have this offset."""
        self.content = Buffer()
        self.begin(first)

    cdef int begin(self, uint64_t first) except -1:
        """Start anew with the same memory."""
        self.first = first
        self.count = self.flags = 0
        self.first_ms = self.last_ms = self.filters = 0
        self.producers = None
        self.content.size = 0
        self.content.extend(BLOCK_HEADER_BYTES)
        return 0

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.first + self.count

    @property
    def bytes(self) -> int:
        """Its length on the disk."""
        return self.content.size

    cdef int add(self, Content* content, bytes filter_value, bytes producer, uint64_t sequence) except -1:
        """Copy a record in; its time is that of the content."""
        cdef size_t filter_len = PyBytes_GET_SIZE(filter_value)
        cdef size_t producer_len = PyBytes_GET_SIZE(producer)
        cdef uint64_t size = RECORD_HEADER_BYTES + content.route_len + filter_len + producer_len
        cdef uint8_t* at
        cdef RecordHeader* header
        if filter_len > LABEL_BYTES_MAX or producer_len > LABEL_BYTES_MAX or content.route_len > ROUTE_BYTES_MAX:
            raise InvalidArgument(
                f"a filter value and a producer have up to {LABEL_BYTES_MAX} bytes, a route up to {ROUTE_BYTES_MAX}:"
                " shorten them"
            )
        if content.header_len > _RECORD_BYTES_MAX or content.body_len > _RECORD_BYTES_MAX - content.header_len:
            raise MessageTooLarge(f"a stream takes records of up to {RECORD_BYTES_MAX} bytes: send a reference instead")
        size += content.header_len + content.body_len
        at = self.content.extend(size)
        header = <RecordHeader*>at
        header.size = <uint32_t>size
        header.header_len = content.header_len
        header.timestamp_ms = content.enqueued_ms
        header.sequence = sequence
        header.route_len = <uint16_t>content.route_len
        header.filter_len = <uint8_t>filter_len
        header.producer_len = <uint8_t>producer_len
        at += RECORD_HEADER_BYTES
        memcpy(at, content.route, content.route_len)
        at += content.route_len
        if filter_len:
            memcpy(at, PyBytes_AS_STRING(filter_value), filter_len)
            self.filters |= filter_bits(at, filter_len)
            at += filter_len
        else:
            self.flags |= UNFILTERED
        if producer_len:
            memcpy(at, PyBytes_AS_STRING(producer), producer_len)
            at += producer_len
            self.flags |= PRODUCED
            if self.producers is None:
                self.producers = {}
            self.producers[producer] = sequence
        memcpy(at, content.header, content.header_len)
        memcpy(at + content.header_len, content.body, content.body_len)
        if self.count == 0:
            self.first_ms = content.enqueued_ms
        self.last_ms = content.enqueued_ms
        self.count += 1
        return 0

    def finish(self, uint32_t salt, uint64_t synced, uint32_t sealing_bytes=0) -> memoryview:
        """The whole block with its header; the view is good for as long as the block is not begun anew.

        If its records are going to be sealed, and be so much longer then, the checksum is left to the sealing.
        """
        cdef BlockHeader* header = <BlockHeader*>self.content.data
        cdef size_t size = self.content.size
        header.magic = BLOCK_MAGIC
        header.size = <uint32_t>(size - BLOCK_HEADER_BYTES) + sealing_bytes
        header.count = self.count
        header.first = self.first
        header.first_ms = self.first_ms
        header.last_ms = self.last_ms
        header.synced = synced
        header.salt = salt
        header.flags = self.flags | (ENCRYPTED | DERIVED if sealing_bytes else 0)
        header.filters = self.filters
        header.crc = 0
        if sealing_bytes == 0:
            with nogil:
                header.crc = crc32c_of(0, <uint8_t*>header + 8, size - 8)
        return PyMemoryView_FromMemory(<char*>self.content.data, <Py_ssize_t>size, PyBUF_READ)


@cython.final
@cython.freelist(256)
cdef class StoredRecord:
    """A record as it was read back."""

    @property
    def header(self) -> bytes:
        """The properties as they came."""
        return self.content[: self.header_len]

    @property
    def body(self) -> bytes:
        return self.content[self.header_len :]


cdef class BlockHead:
    """What the header of a good block says, and where the block ends."""

    @property
    def names_producers(self) -> bool:
        return self.flags & PRODUCED != 0

    @property
    def is_lost(self) -> bool:
        """Whether nothing is left of the records."""
        return self.end - self.start == BLOCK_HEADER_BYTES

    @property
    def is_encrypted(self) -> bool:
        return self.flags & ENCRYPTED != 0

    def alone(self, Py_ssize_t size) -> BlockHead:
        """The same header for the same block, when that is all there is and has this size."""
        cdef BlockHead head = BlockHead()
        head.first, head.count, head.flags = self.first, self.count, self.flags
        head.first_ms, head.last_ms, head.synced, head.filters = self.first_ms, self.last_ms, self.synced, self.filters
        head.start, head.end = 0, size
        return head

    def may_match(self, wanted: Collection[bytes], bint match_unfiltered) -> bool:
        """Whether a record in here may have one of these filter values."""
        cdef bytes value
        cdef uint64_t bits
        if match_unfiltered and self.flags & UNFILTERED:
            return True
        for value in wanted:
            bits = filter_bits(<const uint8_t*>PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            if self.filters & bits == bits:
                return True
        return False


def block_bytes(bytes data, Py_ssize_t at) -> int:
    """How long the block is that begins here, by its own word; 0 when none does, or its header is not all here."""
    cdef const BlockHeader* header
    if PyBytes_GET_SIZE(data) - at < BLOCK_HEADER_BYTES:
        return 0
    header = <const BlockHeader*>(<const uint8_t*>PyBytes_AS_STRING(data) + at)
    if header.magic != BLOCK_MAGIC or header.size > _BLOCK_BYTES_MAX - BLOCK_HEADER_BYTES:
        return 0
    return BLOCK_HEADER_BYTES + <uint64_t>header.size


def read_head(bytes data, Py_ssize_t at, uint32_t salt) -> BlockHead | None:
    """The header of a block; None unless the whole of it is here, of this segment and undamaged."""
    cdef const BlockHeader* header
    cdef uint64_t size = block_bytes(data, at)
    cdef BlockHead head
    if size == 0 or size > <uint64_t>(PyBytes_GET_SIZE(data) - at):
        return None
    header = <const BlockHeader*>(<const uint8_t*>PyBytes_AS_STRING(data) + at)
    if header.salt != salt or header.crc != crc32c_of(0, <const uint8_t*>header + 8, size - 8):
        return None
    head = BlockHead()
    head.first = header.first
    head.count = header.count
    head.first_ms = header.first_ms
    head.last_ms = header.last_ms
    head.synced = header.synced
    head.flags = header.flags
    head.filters = header.filters
    head.start = at
    head.end = at + <Py_ssize_t>size
    return head


def lost_block(uint64_t first, uint32_t count, uint64_t at_ms, uint32_t salt) -> bytes:
    """A block in the place of records that were lost; it is unknown when they were written."""
    cdef bytes block = PyBytes_FromStringAndSize(NULL, BLOCK_HEADER_BYTES)
    cdef BlockHeader* header = <BlockHeader*>PyBytes_AS_STRING(block)
    header.magic = BLOCK_MAGIC
    header.size = header.flags = 0
    header.count = count
    header.first = first
    header.first_ms = header.last_ms = at_ms
    header.synced = header.filters = 0
    header.salt = salt
    header.crc = crc32c_of(0, <uint8_t*>header + 8, BLOCK_HEADER_BYTES - 8)
    return block


cdef bytes repeated(bytes last, const uint8_t* data, size_t size):
    """Some bytes; the same object again when they are those of the record before."""
    if <size_t>PyBytes_GET_SIZE(last) == size and memcmp(PyBytes_AS_STRING(last), data, size) == 0:
        return last
    return PyBytes_FromStringAndSize(<const char*>data, size)


def records_in(
    bytes data, BlockHead head, uint64_t offset=0, uint64_t timestamp_ms=0, wanted: Collection[bytes] | None = None,
    bint match_unfiltered=False,
) -> list[StoredRecord] | None:
    """The records of a good block from an offset and a time on, filtered; None when they are not as long as they say."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data) + head.start + BLOCK_HEADER_BYTES
    cdef const uint8_t* end = <const uint8_t*>PyBytes_AS_STRING(data) + head.end
    cdef const RecordHeader* header
    cdef const uint8_t* part
    cdef uint64_t fixed
    cdef uint32_t index
    cdef bytes route = b""
    cdef bytes filter_value = b""
    cdef bytes producer = b""
    cdef StoredRecord record
    cdef list found = []
    for index in range(0 if head.is_lost else head.count):
        header = record_at(at, end, &fixed)
        if header == NULL:
            return None
        part = at + RECORD_HEADER_BYTES
        at += header.size
        if head.first + index < offset or header.timestamp_ms < timestamp_ms:
            continue
        filter_value = repeated(filter_value, part + header.route_len, header.filter_len)
        if wanted is not None and (filter_value not in wanted if filter_value else not match_unfiltered):
            continue
        record = StoredRecord.__new__(StoredRecord)
        record.offset = head.first + index
        record.timestamp_ms = header.timestamp_ms
        record.sequence = header.sequence
        record.header_len = header.header_len
        record.route = route = repeated(route, part, header.route_len)
        record.filter_value = filter_value
        part += header.route_len + header.filter_len
        record.producer = producer = repeated(producer, part, header.producer_len)
        part += header.producer_len
        record.content = PyBytes_FromStringAndSize(<const char*>part, header.size - fixed)
        found.append(record)
    return found if at == end else None


cdef class Appender:
    """Numbers records and packs them; the writer gets the blocks in their order."""

    def __init__(self, uint64_t next_offset, uint64_t last_ms, uint64_t block_bytes, producers: "Producers"):
        """Go on behind the last record; `producers` tells what is a duplicate."""
        self.next_offset = next_offset
        self.last_ms = last_ms
        self.block_bytes = block_bytes
        self.producers = producers
        self.block = Block(next_offset)
        self.sealed = []

    @property
    def unwritten_bytes(self) -> int:
        return self.sealed_bytes + self.block.content.size

    def append(
        self,
        uint64_t now_ms,
        bytes route not None,
        bytes content not None,
        uint32_t header_len=0,
        bytes filter_value not None=b"",
        bytes producer not None=b"",
        uint64_t sequence=0,
    ) -> int | None:
        """Add a record and give its offset; None when its producer sent it before.

        Confirm a duplicate after the next commit: the first one may not be durable yet.
        """
        cdef Content parts
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(content)
        if header_len > <uint64_t>PyBytes_GET_SIZE(content):
            raise InvalidArgument("the properties cannot be longer than the content that holds them")
        parts.route = <const uint8_t*>PyBytes_AS_STRING(route)
        parts.route_len = <uint32_t>min(PyBytes_GET_SIZE(route), 0xFFFF)
        parts.header = data
        parts.header_len = header_len
        parts.body = data + header_len
        parts.body_len = PyBytes_GET_SIZE(content) - header_len
        parts.enqueued_ms = now_ms
        return self.next_offset - 1 if self.take(&parts, now_ms, filter_value, producer, sequence) else None

    cdef bint take(
        self, Content* content, uint64_t now_ms, bytes filter_value, bytes producer, uint64_t sequence
    ) except -1:
        """See append; False for a duplicate."""
        cdef uint64_t enqueued_ms = content.enqueued_ms
        if self.refusal is not None:
            raise type(self.refusal)(*self.refusal.args)
        if PyBytes_GET_SIZE(producer) and not self.producers.admits(producer, sequence, now_ms):
            return False
        content.enqueued_ms = max(now_ms, self.last_ms)
        self.block.add(content, filter_value, producer, sequence)
        self.last_ms = content.enqueued_ms
        content.enqueued_ms = enqueued_ms   # others take the same content
        self.next_offset += 1
        if PyBytes_GET_SIZE(producer):
            self.producers.note(producer, sequence, now_ms)
        if self.block.content.size >= self.block_bytes:
            self.seal()
        return True

    cdef int seal(self) except -1:
        """Put the block that is being filled behind those that wait."""
        cdef Block block = self.block
        cdef Block fresh = self.spare
        if fresh is None:
            fresh = Block(self.next_offset)
        else:
            fresh.begin(self.next_offset)
        self.spare = None
        self.block = fresh
        self.sealed.append(block)
        self.sealed_bytes += block.content.size
        return 0

    def oldest(self) -> Block | None:
        """The block that is to be written next, which stays here until it was; None when there is nothing."""
        if not self.sealed:
            if self.block.count == 0:
                return None
            self.seal()
        return self.sealed[0]

    def wrote(self) -> None:
        """Forget the oldest block, and use its memory again."""
        cdef Block block = self.sealed.pop(0)
        self.sealed_bytes -= block.content.size
        self.spare = block


def block_at(bytes data not None, Py_ssize_t at) -> BlockHead | None:
    """The header of a block whose segment is not known; None unless the whole of it is here and undamaged."""
    if at < 0 or PyBytes_GET_SIZE(data) - at < BLOCK_HEADER_BYTES:
        return None
    return read_head(data, at, (<const BlockHeader*>(<const uint8_t*>PyBytes_AS_STRING(data) + at)).salt)


cdef class BlockColumns:
    """Takes blocks one after the other, and gives the columns of what was in them."""

    cdef uint64_t first, end            # the offsets that are wanted
    cdef bint wanted[TEXT_COUNT]
    cdef list texts, ends               # a Buffer for each of TEXTS
    cdef Buffer offsets, times, sequences, sizes
    cdef readonly uint64_t rows
    cdef readonly uint64_t size_bytes   # of all values

    def __init__(self, uint64_t first, uint64_t end, wanted: Collection[str]) -> None:
        cdef Py_ssize_t i
        self.first = first
        self.end = end
        for i in range(TEXT_COUNT):
            self.wanted[i] = TEXTS[i] in wanted
        self.clear()

    cdef int clear(self) except -1:
        cdef Buffer ends
        self.rows = self.size_bytes = 0
        self.offsets, self.times, self.sequences, self.sizes = Buffer(), Buffer(), Buffer(), Buffer()
        self.texts = [Buffer() for _ in TEXTS]
        self.ends = [Buffer() for _ in TEXTS]
        for ends in self.ends:
            (<int32_t*>ends.extend(4))[0] = 0
        return 0

    def add(self, bytes data not None, Py_ssize_t start, Py_ssize_t end, uint64_t first, uint32_t count) -> bool:
        """Take a good block that lies here and begins with this offset; False when its records contradict themselves."""
        cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(data) + start + BLOCK_HEADER_BYTES
        cdef const uint8_t* stop = <const uint8_t*>PyBytes_AS_STRING(data) + end
        cdef const RecordHeader* header
        cdef uint64_t fixed
        cdef uint32_t index
        if start < 0 or end > PyBytes_GET_SIZE(data) or end - start < BLOCK_HEADER_BYTES:
            return False
        for index in range(count if at != stop else 0):  # nothing is left of records that were lost
            header = record_at(at, stop, &fixed)
            if header == NULL:
                return False
            at += header.size
            if self.first <= first + index < self.end:
                self.record(header, first + index, header.size - fixed - header.header_len)
        return at == stop

    cdef int record(self, const RecordHeader* header, uint64_t offset, uint64_t body_len) except -1:
        """Add one record, whose lengths are known to be good."""
        cdef const uint8_t* part = <const uint8_t*>header + RECORD_HEADER_BYTES
        cdef uint64_t[TEXT_COUNT] lengths
        cdef Buffer text
        cdef Py_ssize_t i
        lengths[0] = header.route_len
        lengths[1] = header.filter_len
        lengths[2] = header.producer_len
        lengths[3] = header.header_len
        lengths[4] = body_len
        (<int64_t*>self.offsets.extend(8))[0] = <int64_t>offset
        (<int64_t*>self.times.extend(8))[0] = <int64_t>header.timestamp_ms
        (<int64_t*>self.sequences.extend(8))[0] = <int64_t>header.sequence if header.producer_len else -1
        (<int64_t*>self.sizes.extend(8))[0] = <int64_t>body_len
        for i in range(TEXT_COUNT):
            if self.wanted[i]:
                text = <Buffer>self.texts[i]
                text.append(part, lengths[i])
                (<int32_t*>(<Buffer>self.ends[i]).extend(4))[0] = <int32_t>text.size
                self.size_bytes += lengths[i]
            part += lengths[i]
        self.rows += 1
        return 0

    def take(self) -> dict[str, bytes]:
        cdef dict taken = {
            "seq": self.offsets.copied(), "enqueued_ms": self.times.copied(), "sequence": self.sequences.copied(),
            "bytes": self.sizes.copied(),
        }
        for name, wanted, text, ends in zip(TEXTS, self.wanted, self.texts, self.ends):
            if wanted:
                taken[name], taken[f"{name}_ends"] = (<Buffer>text).copied(), (<Buffer>ends).copied()
        self.clear()
        return taken
