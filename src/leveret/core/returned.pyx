"""Messages that were given back, in the order of their places; the page after a place is found without reading the rest.

    chunks = [held, held, ...], [held, ...], ...     in order, none empty, none longer than CHUNK
"""

cdef enum:
    CHUNK = 512     # one insert moves so many pointers at most


cdef inline bint is_after(Held held, uint64_t ms, uint64_t seq) noexcept:
    return held.entry.seq > seq if held.ready_ms == ms else held.ready_ms > ms


cdef class Returned:
    """Held messages by the time that they became ready, then by number."""

    def __cinit__(self):
        self.chunks = []

    def __iter__(self):
        for chunk in self.chunks:
            yield from chunk

    cdef int add(self, Held held) except -1:
        """Insert a message that is in no heap and in no other place."""
        cdef list chunk
        cdef Py_ssize_t index, at
        assert held.slot == 0, "a message waits in one place at a time"
        held.slot = 1
        self.length += 1
        if not self.chunks:
            self.chunks.append([held])
            return 0
        index = self.chunk_of(held.ready_ms, held.entry.seq)
        chunk = <list>self.chunks[index]
        chunk.insert(first_after(chunk, held.ready_ms, held.entry.seq), held)
        if len(chunk) > CHUNK:
            at = CHUNK if chunk[CHUNK] is held else CHUNK // 2      # most come in order: chunks stay full
            self.chunks.insert(index + 1, chunk[at:])
            del chunk[at:]
        return 0

    cdef int remove(self, Held held) except -1:
        cdef Py_ssize_t index = self.chunk_of(held.ready_ms, held.entry.seq)
        cdef list chunk = <list>self.chunks[index]
        cdef Py_ssize_t at = first_after(chunk, held.ready_ms, held.entry.seq) - 1
        assert at >= 0 and chunk[at] is held, "a message that was given back is at its place"
        del chunk[at]
        if not chunk:
            del self.chunks[index]
        held.slot = 0
        self.length -= 1
        return 0

    cdef Held first(self):
        """The first message; there must be one."""
        return <Held>(<list>self.chunks[0])[0]

    cdef list page(self, uint64_t ms, uint64_t seq, Py_ssize_t count):
        """Up to `count` messages after a place."""
        cdef list found = [], chunk
        cdef Py_ssize_t at, index = self.chunk_of(ms, seq)
        while index < len(self.chunks) and len(found) < count:
            chunk = <list>self.chunks[index]
            at = first_after(chunk, ms, seq)
            found += chunk[at : at + count - len(found)]
            index += 1
        return found

    cdef Py_ssize_t chunk_of(self, uint64_t ms, uint64_t seq) noexcept:
        """The last chunk that begins at a place or before it; the first one when all begin after it."""
        cdef Py_ssize_t low = 0, high = len(self.chunks), middle
        while low < high:
            middle = (low + high) // 2
            if is_after(<Held>(<list>self.chunks[middle])[0], ms, seq):
                high = middle
            else:
                low = middle + 1
        return max(low - 1, 0)


cdef Py_ssize_t first_after(list chunk, uint64_t ms, uint64_t seq) noexcept:
    """The index of the first message after a place."""
    cdef Py_ssize_t low = 0, high = len(chunk), middle
    while low < high:
        middle = (low + high) // 2
        if is_after(<Held>chunk[middle], ms, seq):
            high = middle
        else:
            low = middle + 1
    return low
