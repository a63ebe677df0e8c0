"""A lane: waiting messages in order, 26 bytes each.

    lane  = [page][page]...[page]          pushed at the end, taken from the front
    page  = seq, time and segment that its cells count from, then up to 4,096 cells
    cell  = Cell of lane.pxd

Numbers rise along a lane, so a message is found by two binary searches. One that leaves from the middle
(expired, cancelled, settled in a replay) becomes a GONE cell that is skipped later.
"""

from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

cdef enum:
    GONE = 0x80             # taken out of the middle
    FAR = 0x40              # ttl counts seconds: more than 49 days
    IN_MEMORY = 0x20        # segment 0, whatever the page counts from
    MARKS = 0xE0
    CELLS_FIRST = 4         # an almost empty queue costs little
    CELLS_MAX = 4096
    DELTA_MAX = 0xFFFFFFFF
    SEGMENTS_MAX = 0xFFFF

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF


cdef inline uint64_t expiry_of(Page* page, Cell* cell) noexcept:
    if cell.ttl == 0:
        return 0
    return page.enqueued_ms + cell.enqueued_ms + (<uint64_t>cell.ttl) * (1000 if cell.flags & FAR else 1)


cdef void unpack(Page* page, Cell* cell, Entry* entry) noexcept:
    entry.seq = page.seq + cell.seq
    entry.enqueued_ms = page.enqueued_ms + cell.enqueued_ms
    entry.expiry_ms = expiry_of(page, cell)
    entry.place.segment = 0 if cell.flags & IN_MEMORY else page.segment + cell.segment
    entry.place.offset = cell.offset
    entry.place.size = cell.size_priority >> 8
    entry.overhead = cell.overhead
    entry.deliveries = cell.deliveries
    entry.priority = cell.size_priority & 0xFF
    entry.flags = cell.flags & ~MARKS


cdef bint fits(Page* page, Entry* entry) noexcept:
    """Whether every difference to the page's first values can be written in a cell."""
    if entry.seq < page.seq or entry.seq - page.seq > DELTA_MAX:
        return False
    if entry.enqueued_ms < page.enqueued_ms or entry.enqueued_ms - page.enqueued_ms > DELTA_MAX:
        return False
    if entry.place.segment == 0:
        return True
    return page.segment <= entry.place.segment and entry.place.segment - page.segment <= SEGMENTS_MAX


cdef void pack(Page* page, Cell* cell, Entry* entry) noexcept:
    cdef uint64_t ttl = 0
    cell.flags = entry.flags & <uint8_t>(~MARKS)
    if entry.expiry_ms:
        # A message that expired before it was enqueued keeps the shortest life that is not "for ever".
        ttl = entry.expiry_ms - entry.enqueued_ms if entry.expiry_ms > entry.enqueued_ms else 1
        if ttl > DELTA_MAX:
            ttl = min((ttl + 999) // 1000, <uint64_t>DELTA_MAX)
            cell.flags |= FAR
    cell.seq = <uint32_t>(entry.seq - page.seq)
    cell.enqueued_ms = <uint32_t>(entry.enqueued_ms - page.enqueued_ms)
    cell.offset = entry.place.offset
    cell.size_priority = entry.place.size << 8 | entry.priority
    cell.ttl = <uint32_t>ttl
    cell.overhead = entry.overhead
    cell.deliveries = <uint8_t>min(entry.deliveries, <uint32_t>255)
    if entry.place.segment:
        cell.segment = <uint16_t>(entry.place.segment - page.segment)
    else:
        cell.segment = 0
        cell.flags |= IN_MEMORY


cdef class Lane:
    """Waiting messages, in the order of their numbers."""

    def __dealloc__(self):
        cdef uint32_t i
        for i in range(self.first, self.end):
            free(self.pages[i].cells)
            free(self.pages[i])
        free(self.pages)

    cdef int push(self, Entry* entry) except -1:
        """Add a message behind all others; its number must be the highest."""
        cdef Page* page = self.grown(entry)
        assert page.tail == 0 or entry.seq - page.seq > page.cells[page.tail - 1].seq, "a lane takes rising numbers only"
        pack(page, &page.cells[page.tail], entry)
        page.tail += 1
        self.length += 1
        self.latest_expiry_ms = max(self.latest_expiry_ms, entry.expiry_ms or NEVER)
        return 0

    cdef Page* grown(self, Entry* entry) except NULL:
        """The last page, with room for one more cell."""
        cdef Page* page
        cdef Cell* cells
        if self.first == self.end or not fits(self.pages[self.end - 1], entry):
            self.open_page(entry, CELLS_FIRST if self.first == self.end else CELLS_MAX)
        page = self.pages[self.end - 1]
        if page.tail < page.capacity:
            return page
        if page.capacity * 2 > CELLS_MAX:
            self.open_page(entry, CELLS_MAX)
            return self.pages[self.end - 1]
        cells = <Cell*>realloc(page.cells, page.capacity * 2 * sizeof(Cell))
        if cells == NULL:
            raise MemoryError
        page.cells = cells
        page.capacity *= 2
        return page

    cdef int open_page(self, Entry* entry, uint32_t capacity) except -1:
        """Begin a page whose cells count from this entry."""
        cdef Page* page
        self.reserve_slot()
        page = <Page*>malloc(sizeof(Page))
        if page == NULL:
            raise MemoryError
        page.cells = <Cell*>malloc(capacity * sizeof(Cell))
        if page.cells == NULL:
            free(page)
            raise MemoryError
        page.seq = entry.seq
        page.enqueued_ms = entry.enqueued_ms
        page.segment = entry.place.segment
        page.capacity = capacity
        page.head = page.tail = 0
        self.pages[self.end] = page
        self.end += 1
        return 0

    cdef int reserve_slot(self) except -1:
        """Make room for one more page pointer."""
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
        unpack(page, &page.cells[page.head], entry)
        return True

    cdef int pop(self) except -1:
        """Take the first message away."""
        cdef Page* page
        assert self.length > 0, "pop from an empty lane"
        page = self.pages[self.first]
        page.head += 1
        self.length -= 1
        self.skip_gone()
        return 0

    cdef void skip_gone(self) noexcept:
        """Move the head to the first message that is still there; free what lies before it."""
        cdef Page* page
        while self.first < self.end:
            page = self.pages[self.first]
            while page.head < page.tail and page.cells[page.head].flags & GONE:
                page.head += 1
            if page.head < page.tail:
                return
            self.drop_first()
        self.latest_expiry_ms = 0

    cdef void drop_first(self) noexcept:
        free(self.pages[self.first].cells)
        free(self.pages[self.first])
        self.first += 1
        if self.first == self.end:
            free(self.pages)
            self.pages = NULL
            self.first = self.end = self.slots = 0

    cdef Cell* locate(self, uint64_t seq, Page** found) noexcept:
        """The cell of a message that is here, or NULL."""
        cdef uint32_t low = self.first, high = self.end, middle
        cdef Page* page
        while low < high:                               # the last page that starts at or before seq
            middle = (low + high) // 2
            if self.pages[middle].seq <= seq:
                low = middle + 1
            else:
                high = middle
        if low == self.first:
            return NULL
        page = self.pages[low - 1]
        if seq - page.seq > DELTA_MAX:
            return NULL
        low = page.head
        high = page.tail
        while low < high:
            middle = (low + high) // 2
            if page.cells[middle].seq < <uint32_t>(seq - page.seq):
                low = middle + 1
            else:
                high = middle
        if low == page.tail or page.cells[low].seq != <uint32_t>(seq - page.seq) or page.cells[low].flags & GONE:
            return NULL
        found[0] = page
        return &page.cells[low]

    cdef bint find(self, uint64_t seq, Entry* entry) noexcept:
        """Look a message up by its number."""
        cdef Page* page
        cdef Cell* cell = self.locate(seq, &page)
        if cell == NULL:
            return False
        unpack(page, cell, entry)
        return True

    cdef bint remove(self, uint64_t seq, Entry* entry) noexcept:
        """Take a message out of the middle."""
        cdef Page* page
        cdef Cell* cell = self.locate(seq, &page)
        if cell == NULL:
            return False
        unpack(page, cell, entry)
        cell.flags |= GONE
        self.length -= 1
        self.skip_gone()
        return True

    cdef bint replace(self, Entry* entry) noexcept:
        """Give a message a new place or delivery count; False when it is not here or cannot be written so."""
        cdef Page* page
        cdef Cell* cell = self.locate(entry.seq, &page)
        if cell == NULL or not fits(page, entry) or entry.deliveries > 254:
            return False
        pack(page, cell, entry)
        return True

    cdef bint after(self, uint64_t seq, Entry* entry) noexcept:
        """The first message whose number is higher than seq."""
        cdef uint32_t i, low, high, middle
        cdef Page* page
        low = self.first
        high = self.end
        while low < high:                               # the first page that starts after seq
            middle = (low + high) // 2
            if self.pages[middle].seq <= seq:
                low = middle + 1
            else:
                high = middle
        for i in range(low - 1 if low > self.first else low, self.end):
            page = self.pages[i]
            low = page.head
            high = page.tail
            while low < high:
                middle = (low + high) // 2
                if page.seq + page.cells[middle].seq <= seq:
                    low = middle + 1
                else:
                    high = middle
            while low < page.tail and page.cells[low].flags & GONE:
                low += 1
            if low < page.tail:
                unpack(page, &page.cells[low], entry)
                return True
        return False

    cdef int count_segments(self, dict counts) except -1:
        """Add the number of records that lie in each segment."""
        cdef uint32_t i, j, run = 0, segment, current = 0
        cdef Page* page
        for i in range(self.first, self.end):
            page = self.pages[i]
            for j in range(page.head, page.tail):
                if page.cells[j].flags & (GONE | IN_MEMORY):
                    continue
                segment = page.segment + page.cells[j].segment
                if segment != current:
                    if run:
                        counts[current] = counts.get(current, 0) + run
                    current = segment
                    run = 0
                run += 1
        if run:
            counts[current] = counts.get(current, 0) + run
        return 0

    cdef int dump(self, bytearray out) except -1:
        """Append the pages as they are in memory: for a checkpoint, read back by load."""
        cdef uint32_t i, count = self.end - self.first
        cdef Page* page
        out += (<const char*>&count)[: sizeof(count)]
        for i in range(self.first, self.end):
            page = self.pages[i]
            out += (<const char*>page)[: sizeof(Page)]
            out += (<const char*>(page.cells + page.head))[: (page.tail - page.head) * sizeof(Cell)]
        return 0

    cdef Py_ssize_t load(self, const uint8_t* data, Py_ssize_t size) except -1:
        """Read pages written by dump into an empty lane; give the number of bytes used."""
        cdef uint32_t i, j, count, cells
        cdef Py_ssize_t used = sizeof(count)
        cdef Page kept
        cdef Page* page
        cdef Entry entry
        if size < used:
            raise ValueError("a lane is cut short")
        memcpy(&count, data, sizeof(count))
        for i in range(count):
            if size - used < <Py_ssize_t>sizeof(Page):
                raise ValueError("a lane is cut short")
            memcpy(&kept, data + used, sizeof(Page))
            used += sizeof(Page)
            cells = kept.tail - kept.head
            if kept.head > kept.tail or cells > CELLS_MAX or size - used < <Py_ssize_t>(cells * sizeof(Cell)):
                raise ValueError("a lane is cut short")
            entry.seq = kept.seq
            entry.enqueued_ms = kept.enqueued_ms
            entry.place.segment = kept.segment
            self.open_page(&entry, cells if cells < CELLS_MAX and i == count - 1 else CELLS_MAX)
            page = self.pages[self.end - 1]
            memcpy(page.cells, data + used, cells * sizeof(Cell))
            used += cells * sizeof(Cell)
            page.tail = cells
            for j in range(cells):
                self.tally(page, &page.cells[j])
        self.skip_gone()
        return used

    cdef void tally(self, Page* page, Cell* cell) noexcept:
        """Count a loaded cell."""
        if not cell.flags & GONE:
            self.length += 1
            self.latest_expiry_ms = max(self.latest_expiry_ms, expiry_of(page, cell) or NEVER)

    cdef bint touches(self, uint32_t segment) noexcept:
        """Whether some record may lie in this segment; cheap, and sure only when it says no."""
        return self.first < self.end and self.pages[self.first].segment <= segment
