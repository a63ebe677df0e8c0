"""Walking through the frames of a segment without a state to play them into.

Every length is compared with what remains before it is used, as in entries.pyx. The bytes may be mapped from a file
that may be damaged meanwhile: a reader checks each frame again.
"""

from libc.string cimport memcpy

from leveret.storage.journal.records cimport (
    ENCRYPTED,
    ENTRY_BYTES,
    FRAME_HEADER_BYTES,
    FRAME_MAGIC,
    TAG_BYTES,
    crc32c_of,
    crc32c_prepare,
)

from leveret.core.errors import DamagedJournal, UnknownFormat

crc32c_prepare()


cdef class Walk:
    """A range of one segment; `open_frame` gets the head and the sealed bytes of an encrypted frame."""

    def __init__(
        self, const uint8_t[::1] data not None, str name not None, uint64_t offset, uint64_t end, uint32_t salt,
        open_frame,
    ) -> None:
        self.name = name
        if end > <uint64_t>data.shape[0] or offset > end:
            raise self.damage(data.shape[0], "is cut")
        self.data = data
        self.offset = offset
        self.end = end
        self.salt = salt
        self.open_frame = open_frame

    cdef bint is_whole(self, FrameHeader* header) noexcept:
        """Read the header of the next frame; False when there is no whole frame of this segment."""
        cdef uint64_t left = self.end - self.offset, rest
        cdef const uint8_t* frame
        if left < FRAME_HEADER_BYTES:
            return False
        frame = &self.data[self.offset]
        memcpy(header, frame, FRAME_HEADER_BYTES)
        rest = rest_of(header)
        if header.magic != FRAME_MAGIC or header.salt != self.salt or header.index_len % ENTRY_BYTES:
            return False
        if rest > left - FRAME_HEADER_BYTES:
            return False
        return header.crc == crc32c_of(0, frame + 8, FRAME_HEADER_BYTES - 8 + rest)

    cdef int next_frame(self) except -1:
        """Check the next frame and begin with its entries."""
        cdef FrameHeader header
        cdef uint64_t rest
        cdef const uint8_t[::1] plain
        if not self.is_whole(&header):
            raise self.damage(self.offset, "holds a damaged frame")
        rest = rest_of(&header)
        self.frame_at = self.offset
        self.when_ms = <int64_t>header.when_ms
        self.area = &self.data[self.offset] + FRAME_HEADER_BYTES
        if header.flags & ENCRYPTED:
            if self.open_frame is None:
                raise self.contradiction()
            head = bytes(self.data[self.offset : self.offset + FRAME_HEADER_BYTES])
            self.plain = self.open_frame(head, self.area[:rest])
            plain = self.plain
            if <uint64_t>plain.shape[0] != <uint64_t>header.body_len + header.index_len:
                raise self.contradiction()
            self.area = &plain[0] if plain.shape[0] else NULL
        self.area_size = header.body_len
        self.index = self.area + header.body_len
        self.index_size = header.index_len
        self.position = 0
        self.offset += FRAME_HEADER_BYTES + rest
        return 0

    cdef int check_area(self, uint64_t offset, uint64_t size) except -1:
        """Refuse an entry that points outside of its frame."""
        if offset > self.area_size or size > self.area_size - offset:
            raise self.contradiction()
        return 0

    cdef object damage(self, uint64_t offset, str what):
        """The error for bytes that are not as they were written."""
        return DamagedJournal(f"{self.name} {what} at offset {offset}: restore the file from a backup, or leave it out")

    cdef object contradiction(self):
        """The error for a frame that passes its checksum and makes no sense."""
        return self.damage(self.frame_at, "holds a frame that contradicts itself")

    cdef object unknown(self, uint8_t kind):
        """The error for an entry of the future."""
        return UnknownFormat(f"{self.name} holds an entry of kind {kind}: it was written by a newer version; use that")


cdef uint64_t rest_of(const FrameHeader* header) noexcept:
    """The length of a frame after its header."""
    return <uint64_t>header.body_len + header.index_len + (TAG_BYTES if header.flags & ENCRYPTED else 0)
