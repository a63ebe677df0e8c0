"""The bytes of a commit batch: one group commit, written once and never changed.

    segment  | header 64 | batch | batch | ...                            little-endian throughout
    batch    | header 48 | bodies | index entries, 32 each | tag 16 if encrypted |

    header   | magic 4 | crc32c 4 | body_len 4 | index_len 4 | seq 8 | when_ms 8 | salt 4 | flags 4 | synced 8 |
             crc32c is of all that follows it. seq has no gaps over the whole log. salt is the segment's own.
             synced is the last commit batch known durable when this one was written: a bad commit batch numbered at or below
             the `synced` of a later one was durable once, so it is damage and not a torn write.
    record   | crc32c of the rest 4 | header_len 4 | exchange and routing key, short strings | content |

    PUBLISH  | kind 1 | priority 1 | flags 2 | queue 4 | seq 8 | offset 4 | size 4 | enqueued_ms 8 |
    TIMED    | kind 1 | - 1 | deliveries 2 | - 4 | expiry_ms 8 | due_ms 8 | group 8 |    after PUBLISH if set
    ALSO     | kind 1 | count 1 | - 2 | 7 x queue 4 |                                    after PUBLISH, TIMED, ALSO
    DELIVER  | kind 1 | - 1 | deliveries 2 | queue 4 | seq 8 | count 2, at_ms 6 | - 4 | consumer 4 |
    SETTLE   | kind 1 | how 1 | deliveries 2 | queue 4 | seq 8 | count 2, at_ms 6 | held_ms 4 | consumer 4 |
    RETURN   | kind 1 | how 1 | deliveries 2 | queue 4 | seq 8 | due_ms 8 | held_ms 4 | consumer 4 |
    PURGE    | kind 1 | - 3 | queue 4 | before seq 8 | offset 4 | size 4 | at_ms 8 |     area: seqs kept, 8 each
    DEFINE   | kind 1 | what 1 | - 2 | - 4 | - 8 | offset 4 | size 4 | - 8 |             area: the definition
    DEDUP    | kind 1 | - 3 | queue 4 | seq 8 | digest 16 |                              TIMED follows: its expiry is when

    EVENT    | kind 1 | how 1 | deliveries 2 | queue 4 | seq 7 | step 1 | count 2, at_ms 6 | value 4 | consumer 4 |

An entry whose kind has the flag EVENT is for history only: what recovery does not need of messages that are in memory, of
refusals and of streams. Recovery passes over it, but for its numbers, which are not given a second time. It stands
behind all other entries of its commit batch, and a batch that has nothing else is not synced for its sake. It is of
`count` messages: the first is number seq, and each is step + 1 above the one before.

    PUBLISH     a transient message entered a queue: how is its priority, value its bytes; TIMED | EVENT may follow, of all of them
    DELIVER, SETTLE, RETURN     the same as without the flag; value is held_ms
    DEFINE      a queue that does not outlive the broker, so that history has its name; laid out as DEFINE
    STARTED     the broker was opened: transient messages numbered below seq are gone
    LOST        seq events were dropped, because the writer did not keep up

Offsets count from the commit batch's first body. Bodies come before the entries so that the place of a record is known
when it is appended. A PUBLISH with the flag MOVED_FORWARD is a live record copied out of a segment that is to go.
A DELIVER without a time only carries a count forward. What `what` means is the core's affair.
"""

from cpython.buffer cimport PyBUF_READ
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

crc32c_prepare()

assert sizeof(BatchHeader) == BATCH_HEADER_BYTES
assert sizeof(RecordEntry) == sizeof(TimedEntry) == sizeof(AlsoEntry) == ENTRY_BYTES
assert sizeof(RunEntry) == sizeof(ReturnEntry) == sizeof(DedupEntry) == ENTRY_BYTES


def crc32c(const uint8_t[::1] data, uint32_t crc=0, bint portable=False) -> int:
    """The CRC-32C of some bytes, or its continuation; `portable` does without the processor's instruction."""
    if data.shape[0] == 0:
        return crc
    if portable:
        return crc32c_by_table(crc, &data[0], data.shape[0])
    return crc32c_of(crc, &data[0], data.shape[0])


cdef class Buffer:
    """Bytes that grow at the end."""

    def __dealloc__(self):
        free(self.data)

    cdef uint8_t* extend(self, size_t more) except NULL:
        """Make room for more bytes; give the address of the first."""
        cdef size_t capacity = self.capacity
        cdef uint8_t* data
        if more > capacity - self.size:
            capacity = max(capacity * 2, self.size + more, <size_t>4096)
            data = <uint8_t*>realloc(self.data, capacity)
            if data == NULL:
                raise MemoryError
            self.data = data
            self.capacity = capacity
        data = self.data + self.size
        self.size += more
        return data

    cdef int append(self, const void* data, size_t size) except -1:
        if size:        # an empty buffer has no address, which would pass for a failure
            memcpy(self.extend(size), data, size)
        return 0

    cdef bytes copied(self):
        return PyBytes_FromStringAndSize(<const char*>self.data, <Py_ssize_t>self.size)


cdef class CommitBatch:
    """A sealed commit batch, on its way to the disk."""

    @property
    def plain_bytes(self) -> int:
        """The length of bodies and entries."""
        return self.body_len + self.index_len

    @property
    def is_history(self) -> bool:
        """Whether it has nothing that a recovery needs."""
        return 0 < self.event_bytes == self.index_len

    @property
    def awaited_bytes(self) -> int:
        """What a caller may wait for: all but events."""
        return self.body_len + self.index_len - self.event_bytes

    @property
    def entries(self) -> int:
        return self.index_len // ENTRY_BYTES

    def finish(self, uint32_t salt, uint32_t flags, uint64_t synced) -> None:
        """Fill in the header but for its checksum."""
        cdef BatchHeader* header = <BatchHeader*>self.content.data
        header.magic = BATCH_MAGIC
        header.crc = 0
        header.body_len = self.body_len
        header.index_len = self.index_len
        header.seq = self.seq
        header.when_ms = self.when_ms
        header.salt = salt
        header.flags = flags
        header.synced = synced

    def checked(self) -> memoryview:
        """The whole commit batch with its checksum; the view is good for as long as the commit batch is not recycled."""
        cdef BatchHeader* header = <BatchHeader*>self.content.data
        cdef size_t size = self.content.size
        with nogil:
            header.crc = crc32c_of(0, <uint8_t*>header + 8, size - 8)
        return PyMemoryView_FromMemory(<char*>self.content.data, <Py_ssize_t>size, PyBUF_READ)

    def header(self) -> bytes:
        return self.content.data[:BATCH_HEADER_BYTES]

    def plain(self) -> memoryview:
        return PyMemoryView_FromMemory(
            <char*>self.content.data + BATCH_HEADER_BYTES, <Py_ssize_t>self.plain_bytes, PyBUF_READ
        )


cdef class WrittenTail:
    """The commit batches that were written last, as many as fit: the cache of the journal.

    A message is mostly taken soon after it was sent, when its commit batch is still here. Keeping whole batches costs
    nothing per message; older records are read back from their segment in large pieces.
    """

    def __init__(self, uint64_t bytes_max) -> None:
        self.frames = []
        self.bytes_max = bytes_max

    cdef Buffer keep(self, CommitBatch batch):
        """Add a commit batch that was written; give a buffer that is free for another one, or None."""
        cdef Buffer free = None
        self.frames.append(batch)
        self.bytes += batch.content.capacity
        while self.bytes > self.bytes_max and self.first < len(self.frames):
            free = self.drop()
        return free

    cdef Buffer drop(self):
        """Forget the oldest commit batch; give its buffer."""
        cdef CommitBatch batch = <CommitBatch>self.frames[self.first]
        cdef Buffer content = batch.content
        batch.content = None
        self.frames[self.first] = None
        self.bytes -= content.capacity
        self.first += 1
        if self.first * 2 > len(self.frames):
            del self.frames[: self.first]
            self.hit -= self.first
            self.first = 0
        return content

    cdef bint holds(self, Py_ssize_t index, Place* place) noexcept:
        """Whether a record lies in this commit batch."""
        cdef CommitBatch batch
        if index < self.first or index >= len(self.frames):
            return False
        batch = <CommitBatch>self.frames[index]
        return (
            batch.segment == place.segment and batch.offset <= place.offset
            and <uint64_t>(place.offset - batch.offset) + place.size <= batch.content.size
        )

    cdef const uint8_t* record(self, Place* place) noexcept:
        """The address of a record, or NULL when it is not here any more."""
        cdef Py_ssize_t low = self.first, high = len(self.frames), middle
        cdef CommitBatch batch
        if not self.holds(self.hit, place):
            if self.holds(self.hit + 1, place):
                self.hit += 1
            else:
                while low < high:               # the last commit batch that begins at or before the record
                    middle = (low + high) // 2
                    batch = <CommitBatch>self.frames[middle]
                    if batch.segment < place.segment or (
                        batch.segment == place.segment and batch.offset <= place.offset
                    ):
                        low = middle + 1
                    else:
                        high = middle
                if not self.holds(low - 1, place):
                    return NULL
                self.hit = low - 1
        batch = <CommitBatch>self.frames[self.hit]
        return batch.content.data + (place.offset - batch.offset)

    cdef int forget(self, uint32_t segment) except -1:
        """A segment was removed: nothing of it is read again."""
        while self.first < len(self.frames) and (<CommitBatch>self.frames[self.first]).segment <= segment:
            self.drop()
        return 0
