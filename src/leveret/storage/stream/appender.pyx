"""The end of a stream in memory: records become blocks here, before they are written."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.errors import InvalidArgument
from leveret.core.ports cimport Content
from leveret.storage.stream.blocks cimport Block

cdef class Appender:
    """Numbers records and packs them; the writer gets the blocks in their order."""

    def __init__(self, uint64_t next_offset, uint64_t last_ms, uint64_t block_bytes, producers):
        """Go on behind the last record; `producers` tells what is a duplicate."""
        self.next_offset = next_offset
        self.last_ms = last_ms
        self.block_bytes = block_bytes
        self.producers = producers
        self.block = Block(next_offset)
        self.sealed = []

    @property
    def unwritten_bytes(self) -> int:
        """What waits to be written."""
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
