"""Blocks as columns: the records of a range of offsets, packed for programs that compute on them.

No record becomes an object. Values of different lengths (route, header, body, filter value, producer) lie one behind
the other, with their ends beside them; those that were not asked for are not copied.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from leveret.storage.journal.records cimport Buffer
from leveret.storage.stream.blocks cimport BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES, BlockHeader, RecordHeader, record_at

from leveret.storage.stream.blocks import read_head

cdef enum:
    TEXT_COUNT = 5

TEXTS = ("route", "filter_value", "producer", "header", "body")
"""The values of a record, in their order."""


def block_at(bytes data not None, Py_ssize_t at):
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

    def __init__(self, uint64_t first, uint64_t end, wanted) -> None:
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
