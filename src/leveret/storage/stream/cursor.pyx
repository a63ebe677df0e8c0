"""A place in one partition for those who copy records from where they lie: no object is made for any of them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.ports cimport Record
from leveret.core.streams cimport StreamCursor
from leveret.storage.stream.blocks cimport BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES, BlockHead, RecordHeader


cdef class LogCursor(StreamCursor):
    """Goes through the blocks that a reader gives, record by record; holds one piece of the file at most."""

    cdef object reader          # leveret.storage.stream.reader.PartitionReader
    cdef uint64_t least         # what has a smaller offset was not asked for
    cdef object wanted          # filter values, or None
    cdef bint match_unfiltered
    cdef object job             # what fetches the next piece from a slow disk
    cdef bint away              # it is being fetched
    cdef list blocks            # of the piece that was read last
    cdef Py_ssize_t next_block
    cdef bytes data             # keeps the block alive
    cdef BlockHead head
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef uint64_t block_end     # the offset after the last record of the block

    def __init__(
        self, uint32_t partition, reader, uint64_t least=0, wanted=None, bint match_unfiltered=False
    ) -> None:
        """Go on from where a reader is; leave out what comes before an offset that is yet to come."""
        self.partition = partition
        self.reader = reader
        self.least = least
        self.wanted = None if wanted is None else frozenset(wanted)
        self.match_unfiltered = match_unfiltered
        self.offset = reader.offset
        self.blocks = []

    cdef bint find(self, Record* found) except -1:
        cdef const RecordHeader* header
        cdef const uint8_t* part
        cdef uint64_t fixed
        while self.offset < self.block_end or self.read_on():
            header = <const RecordHeader*>self.at
            if self.end - self.at < RECORD_HEADER_BYTES:
                raise self.reader.damage(self.head)
            fixed = RECORD_HEADER_BYTES + <uint64_t>header.route_len + header.filter_len + header.producer_len
            if header.size > <uint64_t>(self.end - self.at) or fixed + header.header_len > header.size:
                raise self.reader.damage(self.head)
            part = self.at + RECORD_HEADER_BYTES
            if self.wanted is None or self.matches(part + header.route_len, header.filter_len):
                found.route = part
                found.route_len = header.route_len
                found.content = self.at + fixed
                found.content_len = header.size - fixed
                found.header_len = header.header_len
                return True
            self.passed()
        return False

    cdef int passed(self) except -1:
        self.at += (<const RecordHeader*>self.at).size
        self.offset += 1
        return 0

    cdef bint matches(self, const uint8_t* value, uint32_t size) except -1:
        """Whether a filter value is one of those that are wanted."""
        if size == 0:
            return self.match_unfiltered
        return PyBytes_FromStringAndSize(<const char*>value, size) in self.wanted

    cdef bint read_on(self) except -1:
        """Go to the next block that may have something; False at the end of the stream."""
        cdef uint64_t start = max(self.least, max(self.offset, self.block_end))
        while True:
            while self.next_block >= len(self.blocks):
                if self.reader.at_end:
                    self.offset = max(start, <uint64_t>self.reader.offset)
                    self.block_end = self.offset
                    self.data = None
                    self.blocks = []
                    self.next_block = 0
                    return False
                if self.away or self.is_missing():
                    return False
                self.blocks = self.reader.blocks()
                self.next_block = 0
            self.enter_block(start)
            if self.offset < self.block_end:
                return True

    cdef bint is_missing(self) except -1:
        """Whether the next piece has to be fetched: a thread that holds the lock does not wait for a disk."""
        self.job = self.reader.missing()
        self.away = self.job is not None
        return self.away

    def missing(self) -> object:
        job, self.job = self.job, None
        return job

    def fetched(self) -> None:
        self.away = False

    cdef int enter_block(self, uint64_t start) except -1:
        """Go to the first record of the next block that has this offset or a later one; or to its end."""
        self.data, self.head = self.blocks[self.next_block]
        self.blocks[self.next_block] = None
        self.next_block += 1
        self.at = <const uint8_t*>PyBytes_AS_STRING(self.data) + self.head.start + BLOCK_HEADER_BYTES
        self.end = <const uint8_t*>PyBytes_AS_STRING(self.data) + self.head.end
        self.offset = self.head.first
        self.block_end = self.head.first + self.head.count
        while self.offset < start and self.end - self.at >= RECORD_HEADER_BYTES:
            self.passed()
        return 0

    def close(self) -> None:
        self.reader.close()
        self.data = None
        self.blocks = []
        self.next_block = 0
        self.offset = self.block_end = 0
