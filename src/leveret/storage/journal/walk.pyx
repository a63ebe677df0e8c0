"""Walking through the commit batches of a segment without a state to play them into.

Every length is compared with what remains before it is used, as in entries.pyx. The bytes may be mapped from a file
that may be damaged meanwhile: a reader checks each commit batch again.
"""

from libc.string cimport memcpy

from leveret.storage.journal.records cimport (
    ENCRYPTED,
    ENTRY_BYTES,
    BATCH_HEADER_BYTES,
    BATCH_MAGIC,
    TAG_BYTES,
    crc32c_of,
    crc32c_prepare,
)

from leveret.core.errors import DamagedJournal, UnknownFormat

crc32c_prepare()


cdef class Walk:
    """A range of one segment; `open_batch` gets the head and the sealed bytes of an encrypted commit batch."""

    def __init__(
        self, const uint8_t[::1] data not None, str name not None, uint64_t offset, uint64_t end, uint32_t salt,
        open_batch,
    ) -> None:
        self.name = name
        if end > <uint64_t>data.shape[0] or offset > end:
            raise self.damage(data.shape[0], "is cut")
        self.data = data
        self.offset = offset
        self.end = end
        self.salt = salt
        self.open_batch = open_batch

    cdef bint is_whole(self, BatchHeader* header) noexcept:
        """Read the header of the next commit batch; False when there is no whole commit batch of this segment."""
        cdef uint64_t left = self.end - self.offset, rest
        cdef const uint8_t* batch
        if left < BATCH_HEADER_BYTES:
            return False
        batch = &self.data[self.offset]
        memcpy(header, batch, BATCH_HEADER_BYTES)
        rest = rest_of(header)
        if header.magic != BATCH_MAGIC or header.salt != self.salt or header.index_len % ENTRY_BYTES:
            return False
        if rest > left - BATCH_HEADER_BYTES:
            return False
        return header.crc == crc32c_of(0, batch + 8, BATCH_HEADER_BYTES - 8 + rest)

    cdef int next_batch(self) except -1:
        """Check the next commit batch and begin with its entries."""
        cdef BatchHeader header
        cdef uint64_t rest
        cdef const uint8_t[::1] plain
        if not self.is_whole(&header):
            raise self.damage(self.offset, "holds a damaged frame")
        rest = rest_of(&header)
        self.batch_at = self.offset
        self.when_ms = <int64_t>header.when_ms
        self.area = &self.data[self.offset] + BATCH_HEADER_BYTES
        if header.flags & ENCRYPTED:
            if self.open_batch is None:
                raise self.contradiction()
            head = bytes(self.data[self.offset : self.offset + BATCH_HEADER_BYTES])
            self.plain = self.open_batch(head, self.area[:rest])
            plain = self.plain
            if <uint64_t>plain.shape[0] != <uint64_t>header.body_len + header.index_len:
                raise self.contradiction()
            self.area = &plain[0] if plain.shape[0] else NULL
        self.area_size = header.body_len
        self.index = self.area + header.body_len
        self.index_size = header.index_len
        self.position = 0
        self.offset += BATCH_HEADER_BYTES + rest
        return 0

    cdef int check_area(self, uint64_t offset, uint64_t size) except -1:
        """Refuse an entry that points outside of its commit batch."""
        if offset > self.area_size or size > self.area_size - offset:
            raise self.contradiction()
        return 0

    cdef object damage(self, uint64_t offset, str what):
        """The error for bytes that are not as they were written."""
        return DamagedJournal(f"{self.name} {what} at offset {offset}: restore the file from a backup, or leave it out")

    cdef object contradiction(self):
        """The error for a commit batch that passes its checksum and makes no sense."""
        return self.damage(self.batch_at, "holds a frame that contradicts itself")

    cdef object unknown(self, uint8_t kind):
        """The error for an entry of the future."""
        return UnknownFormat(f"{self.name} holds an entry of kind {kind}: it was written by a newer version; use that")


cdef uint64_t rest_of(const BatchHeader* header) noexcept:
    """The length of a commit batch after its header."""
    return <uint64_t>header.body_len + header.index_len + (TAG_BYTES if header.flags & ENCRYPTED else 0)
