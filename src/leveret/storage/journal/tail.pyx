"""The end of the log that is still in memory though it is written: the cache of the journal.

A message is mostly taken soon after it was sent, when its frame is still here. Keeping whole frames costs nothing per
message, neither when it is published nor when it is settled; older records are read back from their segment in large pieces.
"""


cdef class Tail:
    """The frames that were written last, as many as fit."""

    def __init__(self, uint64_t bytes_max) -> None:
        self.frames = []
        self.bytes_max = bytes_max

    cdef Buffer keep(self, Frame frame):
        """Add a frame that was written; give a buffer that is free for another one, or None."""
        cdef Buffer free = None
        self.frames.append(frame)
        self.bytes += frame.content.capacity
        while self.bytes > self.bytes_max and self.first < len(self.frames):
            free = self.drop()
        return free

    cdef Buffer drop(self):
        """Forget the oldest frame; give its buffer."""
        cdef Frame frame = <Frame>self.frames[self.first]
        cdef Buffer content = frame.content
        frame.content = None
        self.frames[self.first] = None
        self.bytes -= content.capacity
        self.first += 1
        if self.first * 2 > len(self.frames):
            del self.frames[: self.first]
            self.hit -= self.first
            self.first = 0
        return content

    cdef bint holds(self, Py_ssize_t index, Place* place) noexcept:
        """Whether a record lies in this frame."""
        cdef Frame frame
        if index < self.first or index >= len(self.frames):
            return False
        frame = <Frame>self.frames[index]
        return (
            frame.segment == place.segment and frame.offset <= place.offset
            and <uint64_t>(place.offset - frame.offset) + place.size <= frame.content.size
        )

    cdef const uint8_t* record(self, Place* place) noexcept:
        """The address of a record, or NULL when it is not here any more."""
        cdef Py_ssize_t low = self.first, high = len(self.frames), middle
        cdef Frame frame
        if not self.holds(self.hit, place):
            if self.holds(self.hit + 1, place):
                self.hit += 1
            else:
                while low < high:               # the last frame that begins at or before the record
                    middle = (low + high) // 2
                    frame = <Frame>self.frames[middle]
                    if frame.segment < place.segment or (
                        frame.segment == place.segment and frame.offset <= place.offset
                    ):
                        low = middle + 1
                    else:
                        high = middle
                if not self.holds(low - 1, place):
                    return NULL
                self.hit = low - 1
        frame = <Frame>self.frames[self.hit]
        return frame.content.data + (place.offset - frame.offset)

    cdef int forget(self, uint32_t segment) except -1:
        """A segment was removed: nothing of it is read again."""
        while self.first < len(self.frames) and (<Frame>self.frames[self.first]).segment <= segment:
            self.drop()
        return 0
