"""A lane: waiting messages in the order of their numbers, 26 bytes each, or about one while they are far from the head.

    lane  = [page][page]...[page]          pushed at the end, taken from the front; see pages.pyx

Numbers rise along a lane, so a message is found by two binary searches. One that leaves from the middle (expired,
cancelled, settled in a replay) becomes a GONE cell that is skipped later. Pages that are neither near the head nor near
the end are squeezed.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_INCREF, PyObject
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, memmove

from leveret.core.pages cimport (
    CELLS_FIRST, CELLS_MAX, GONE, IN_MEMORY, MIXED, cell_of, first_after, fits, free_page, grow, new_page, read_cell,
    squeeze, touch, unsqueeze, write_cell,
)

cdef enum:
    WARM_PAGES = 2          # at either end: they are about to be taken, or still being written
    LANE_DELIVERIES_MAX = 254

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF


cdef inline uint32_t body_bytes(Cell* cell) noexcept:
    return (cell.size_priority >> 8) - cell.overhead


cdef class Lane:
    """Waiting messages, in the order of their numbers."""

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.first, self.end):
            free_page(self.pages[i])
        free(self.pages)

    cdef int push(self, Entry* entry) except -1:
        """Add a message behind all others; its number must be the highest."""
        cdef Page* page = self.roomy(entry)
        assert page.tail == 0 or entry.seq - page.seq > page.cells[page.tail - 1].seq, "a lane takes rising numbers only"
        write_cell(page, &page.cells[page.tail], entry)
        page.tail += 1
        page.live += 1
        page.body_bytes += entry.place.size - entry.overhead
        self.length += 1
        self.bytes += entry.place.size - entry.overhead
        self.latest_expiry_ms = max(self.latest_expiry_ms, entry.expiry_ms or NEVER)
        return 0

    cdef Page* roomy(self, Entry* entry) except NULL:
        """The last page, with room for one more cell."""
        cdef Page* page
        if self.first == self.end or not fits(self.pages[self.end - 1], entry):
            self.open_page(entry, CELLS_FIRST if self.first == self.end else CELLS_MAX)
        page = self.pages[self.end - 1]
        touch(page)
        if page.tail < page.capacity:
            return page
        if page.capacity * 2 <= CELLS_MAX:
            grow(page)
            return page
        self.open_page(entry, CELLS_MAX)
        return self.pages[self.end - 1]

    cdef int open_page(self, Entry* entry, uint32_t capacity) except -1:
        """Begin a page; the one that is now far from both ends gets cold."""
        self.reserve_slot()
        self.pages[self.end] = new_page(entry, capacity)
        self.end += 1
        if self.end - self.first > 2 * WARM_PAGES:
            squeeze(self.pages[self.end - 1 - WARM_PAGES])
        return 0

    cdef int reserve_slot(self) except -1:
        cdef uint32_t slots
        cdef Page** pages
        if self.end < self.slots:
            return 0
        if self.first > self.slots // 2:
            memmove(self.pages, self.pages + self.first, (self.end - self.first) * sizeof(Page*))
            self.end -= self.first
            self.first = 0
            return 0
        slots = max(<uint32_t>1, self.slots * 2)
        pages = <Page**>realloc(self.pages, slots * sizeof(Page*))
        if pages == NULL:
            raise MemoryError
        self.pages = pages
        self.slots = slots
        return 0

    cdef bint peek(self, Entry* entry) noexcept:
        """The first message, if there is one."""
        cdef Page* page
        if self.length == 0:
            return False
        page = self.pages[self.first]
        read_cell(page, &page.cells[page.head], entry)
        return True

    cdef int pop(self) except -1:
        cdef Page* page
        assert self.length > 0, "pop from an empty lane"
        page = self.pages[self.first]
        return self.leave(page, &page.cells[page.head])

    cdef int leave(self, Page* page, Cell* cell) except -1:
        """A message goes, from wherever it stands in a page that was touched."""
        cdef uint32_t size = body_bytes(cell)
        cell.flags |= GONE
        page.live -= 1
        page.body_bytes -= size
        self.length -= 1
        self.bytes -= size
        return self.skip_gone()

    cdef int skip_gone(self) except -1:
        """Move the head to the first message that is still there; free what lies before it."""
        cdef Page* page
        while self.first < self.end:
            page = self.pages[self.first]
            if page.live:
                touch(page)
                while page.cells[page.head].flags & GONE:
                    page.head += 1
                return 0
            self.drop_first()
        self.latest_expiry_ms = 0
        return 0

    cdef int drop_first(self) except -1:
        if self.looked == self.pages[self.first]:
            self.looked = NULL
        free_page(self.pages[self.first])
        self.first += 1
        if self.first == self.end:
            free(self.pages)
            self.pages = NULL
            self.first = self.end = self.slots = 0
        return 0

    cdef Page* page_before(self, uint64_t seq, uint32_t* index) noexcept:
        """The last page that starts at or before a number; NULL when all start after it."""
        cdef uint32_t low = self.first, high = self.end, middle
        while low < high:
            middle = (low + high) // 2
            if self.pages[middle].seq <= seq:
                low = middle + 1
            else:
                high = middle
        index[0] = low - 1 if low > self.first else self.first
        return self.pages[low - 1] if low > self.first else NULL

    cdef Cell* locate(self, uint64_t seq, Page** found) except? NULL:
        """The cell of a message that is here, or NULL."""
        cdef uint32_t index
        found[0] = self.page_before(seq, &index)
        if found[0] == NULL:
            return NULL
        self.look(found[0])
        return cell_of(found[0], seq)

    cdef int look(self, Page* page) except -1:
        """Read a page that may be cold; the cold one that was read before it is squeezed again."""
        if self.looked != NULL and self.looked != page and self.looked.squeezed != NULL:
            squeeze(self.looked)
        self.looked = NULL
        if page.cells == NULL:
            unsqueeze(page)
            self.looked = page
        return 0

    cdef bint find(self, uint64_t seq, Entry* entry) except -1:
        cdef Page* page
        cdef Cell* cell = self.locate(seq, &page)
        if cell == NULL:
            return False
        read_cell(page, cell, entry)
        return True

    cdef bint remove(self, uint64_t seq, Entry* entry) except -1:
        cdef Page* page
        cdef Cell* cell = self.locate(seq, &page)
        if cell == NULL:
            return False
        read_cell(page, cell, entry)
        touch(page)
        self.leave(page, cell)
        return True

    cdef bint replace(self, Entry* entry) except -1:
        """Give a message a new place or delivery count; False when it is not here or cannot be written so."""
        cdef Page* page
        cdef Cell* cell = self.locate(entry.seq, &page)
        cdef uint32_t size = entry.place.size - entry.overhead
        if cell == NULL or not fits(page, entry) or entry.deliveries > LANE_DELIVERIES_MAX:
            return False
        touch(page)
        page.body_bytes = page.body_bytes + size - body_bytes(cell)
        self.bytes = self.bytes + size - body_bytes(cell)
        write_cell(page, cell, entry)
        return True

    cdef bint after(self, uint64_t seq, Entry* entry) except -1:
        """The first message whose number is higher than seq."""
        cdef uint32_t i, at
        cdef Page* page
        self.page_before(seq, &at)
        for i in range(at, self.end):
            page = self.pages[i]
            if page.live == 0:
                continue
            self.look(page)
            at = first_after(page, seq)
            while at < page.tail and page.cells[at].flags & GONE:
                at += 1
            if at < page.tail:
                read_cell(page, &page.cells[at], entry)
                return True
        return False

    cdef int count_segments(self, dict counts) except -1:
        """Add the number of records that lie in each segment; those that are in memory only do not count."""
        cdef uint32_t i, j
        cdef Page* page
        for i in range(self.first, self.end):
            page = self.pages[i]
            if page.segment == page.segment_max:
                if page.segment:
                    counts[page.segment] = counts.get(page.segment, 0) + page.live
                continue
            self.look(page)
            for j in range(page.head, page.tail):
                if not page.cells[j].flags & (GONE | IN_MEMORY):
                    segment = page.segment + page.cells[j].segment
                    counts[segment] = counts.get(segment, 0) + 1
        return 0

    cdef bint touches(self, uint32_t segment) noexcept:
        """Whether some record may lie in this segment; sure only when it says no.

        Segments do not rise along a lane: an old message may have been copied to a newer one before a restart.
        """
        cdef uint32_t i
        for i in range(self.first, self.end):
            if self.pages[i].segment <= segment <= self.pages[i].segment_max:
                return True
        return False

    cdef int dump(self, bytearray out) except -1:
        """Append the pages, squeezed, for a checkpoint; read back by load."""
        cdef uint32_t i, size, count = self.end - self.first
        cdef Page* page
        cdef Page kept
        cdef bint cold
        out += (<const char*>&count)[: sizeof(count)]
        out += (<const char*>&self.latest_expiry_ms)[:8]
        for i in range(self.first, self.end):
            page = self.pages[i]
            cold = page.cells == NULL
            squeeze(page)
            kept = page[0]
            kept.capacity = 0
            kept.squeezed = NULL
            size = <uint32_t>PyBytes_GET_SIZE(<object>page.squeezed)
            out += (<const char*>&kept)[: sizeof(Page)]
            out += (<const char*>&size)[: sizeof(size)]
            out += <bytes>page.squeezed
            if not cold:
                unsqueeze(page)
        return 0

    cdef Py_ssize_t load(self, const uint8_t* data, Py_ssize_t size) except -1:
        """Read pages written by dump into an empty lane; give the number of bytes used."""
        cdef uint32_t i, count, length
        cdef Py_ssize_t used = sizeof(count) + 8
        cdef uint64_t latest_expiry_ms
        cdef Page kept
        if size < used:
            raise ValueError("a lane is cut short")
        memcpy(&count, data, sizeof(count))
        memcpy(&latest_expiry_ms, data + sizeof(count), 8)
        for i in range(count):
            if size - used < <Py_ssize_t>(sizeof(Page) + sizeof(length)):
                raise ValueError("a lane is cut short")
            memcpy(&kept, data + used, sizeof(Page))
            memcpy(&length, data + used + sizeof(Page), sizeof(length))
            used += sizeof(Page) + sizeof(length)
            if kept.head or kept.tail > CELLS_MAX or kept.live > kept.tail or size - used < <Py_ssize_t>length:
                raise ValueError("a lane is cut short")
            self.load_page(&kept, PyBytes_FromStringAndSize(<const char*>data + used, length))
            used += length
        self.skip_gone()
        self.drop_volatile()
        self.latest_expiry_ms = latest_expiry_ms if self.length else 0
        return used

    cdef int drop_volatile(self) except -1:
        """Remove what was in memory only: it was lost with the memory."""
        cdef Entry entry
        cdef uint64_t seq = 0
        cdef uint32_t i
        cdef bint some = False
        for i in range(self.first, self.end):
            some = some or self.pages[i].segment == 0 or self.pages[i].segment_max == MIXED
        while some and self.after(seq, &entry):
            seq = entry.seq
            if entry.place.segment == 0:
                self.remove(seq, &entry)
        return 0

    cdef int load_page(self, Page* kept, bytes squeezed) except -1:
        """Take a page as it was dumped: cold."""
        cdef Page* page
        cdef Entry first
        first.seq = kept.seq
        first.enqueued_ms = kept.enqueued_ms
        first.place.segment = kept.segment
        self.reserve_slot()
        page = new_page(&first, 1)
        free(page.cells)
        page[0] = kept[0]
        page.cells = NULL
        Py_INCREF(squeezed)
        page.squeezed = <PyObject*>squeezed
        self.pages[self.end] = page
        self.end += 1
        self.forget_transient(page)
        self.length += page.live
        self.bytes += page.body_bytes
        return 0

    cdef int forget_transient(self, Page* page) except -1:
        """Messages that were in memory only did not survive."""
        cdef uint32_t i
        if page.segment == page.segment_max and page.segment:
            return 0
        touch(page)
        for i in range(page.tail):
            if page.cells[i].flags & IN_MEMORY and not page.cells[i].flags & GONE:
                page.cells[i].flags |= GONE
                page.live -= 1
                page.body_bytes -= body_bytes(&page.cells[i])
        return 0
