"""The end of the log that is still in memory though it is written: the cache of the journal.

A message is mostly taken soon after it was sent, when its commit batch is still here. Keeping whole batches costs nothing per
message, neither when it is published nor when it is settled; older records are read back from their segment in large pieces.
"""


cdef class WrittenTail:
    """The commit batches that were written last, as many as fit."""

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
