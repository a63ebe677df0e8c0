"""A page of a lane: up to 4,096 cells that count from its first message; squeezed to a few kilobytes while it is cold.

    columns  = the cells column by column, each value as the difference to its predecessor's
               (an offset as the difference to the end of the record before it)
    squeezed = u16 which columns are constant | first and other value of each of these | zlib of the other columns

Messages of a long queue differ little from their peers, so most columns are constant and the others mostly zeros:
ten million waiting messages take about a byte each, and a checkpoint writes squeezed pages as they are.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF, Py_XDECREF
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcmp, memcpy

from zlib import compress, decompress
from zlib import error as zlib_error

cdef enum:
    DELTA_MAX = 0xFFFFFFFF
    SEGMENTS_MAX = 0xFFFF
    ZLIB_FAST = 1
    COLUMNS = 9

cdef size_t[COLUMNS] WIDTHS = [4, 4, 4, 4, 4, 2, 2, 1, 1]


cdef Page* new_page(Entry* first, uint32_t capacity) except NULL:
    """An empty page whose cells count from this entry."""
    cdef Page* page = <Page*>malloc(sizeof(Page))
    if page == NULL:
        raise MemoryError
    page.cells = <Cell*>malloc(capacity * sizeof(Cell))
    if page.cells == NULL:
        free(page)
        raise MemoryError
    page.seq = first.seq
    page.enqueued_ms = first.enqueued_ms
    page.segment = page.segment_max = first.place.segment
    page.capacity = capacity
    page.body_bytes = 0
    page.head = page.tail = page.live = 0
    page.squeezed = NULL
    return page


cdef void free_page(Page* page) noexcept:
    Py_XDECREF(page.squeezed)
    free(page.cells)
    free(page)


cdef int grow(Page* page) except -1:
    cdef Cell* cells = <Cell*>realloc(page.cells, page.capacity * 2 * sizeof(Cell))
    if cells == NULL:
        raise MemoryError
    page.cells = cells
    page.capacity *= 2
    return 0


cdef bint fits(Page* page, Entry* entry) noexcept:
    """Whether every difference to the page's first values can be written in a cell."""
    if entry.seq < page.seq or entry.seq - page.seq > DELTA_MAX:
        return False
    if entry.enqueued_ms < page.enqueued_ms or entry.enqueued_ms - page.enqueued_ms > DELTA_MAX:
        return False
    if entry.place.segment == 0:
        return True
    return page.segment <= entry.place.segment and entry.place.segment - page.segment <= SEGMENTS_MAX


cdef void write_cell(Page* page, Cell* cell, Entry* entry) noexcept:
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
        page.segment_max = max(page.segment_max, entry.place.segment)
    else:
        cell.segment = 0
        cell.flags |= IN_MEMORY
        if page.segment:
            page.segment_max = MIXED


cdef uint64_t expiry_of(Page* page, Cell* cell) noexcept:
    if cell.ttl == 0:
        return 0
    return page.enqueued_ms + cell.enqueued_ms + (<uint64_t>cell.ttl) * (1000 if cell.flags & FAR else 1)


cdef void read_cell(Page* page, Cell* cell, Entry* entry) noexcept:
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


cdef Cell* cell_of(Page* page, uint64_t seq) except? NULL:
    """The cell of a message that is in this page, or NULL."""
    cdef uint32_t at
    if seq < page.seq or seq - page.seq > DELTA_MAX:
        return NULL
    unsqueeze(page)
    at = page.head if seq == page.seq and page.head == 0 else first_after(page, seq - 1)
    if at == page.tail or page.cells[at].seq != <uint32_t>(seq - page.seq) or page.cells[at].flags & GONE:
        return NULL
    return &page.cells[at]


cdef uint32_t first_after(Page* page, uint64_t seq) except? 0xFFFFFFFF:
    """The index of the first cell whose number is higher than seq; tail when there is none."""
    cdef uint32_t low = page.head, high = page.tail, middle
    unsqueeze(page)
    while low < high:
        middle = (low + high) // 2
        if page.seq + page.cells[middle].seq <= seq:
            low = middle + 1
        else:
            high = middle
    return low


cdef int touch(Page* page) except -1:
    """Prepare a page for a change: what it was squeezed to is no longer true."""
    unsqueeze(page)
    Py_XDECREF(page.squeezed)
    page.squeezed = NULL
    return 0


cdef int squeeze(Page* page) except -1:
    """Give the room of the cells back; a page that was only looked at has its squeezed form still."""
    cdef bytes columns
    cdef object squeezed
    if page.cells == NULL:
        return 0
    if page.squeezed == NULL:
        columns = PyBytes_FromStringAndSize(NULL, (page.tail - page.head) * sizeof(Cell))
        to_columns(page, <uint8_t*>PyBytes_AS_STRING(columns))
        squeezed = without_constants(columns, page.tail - page.head)
        Py_INCREF(squeezed)
        page.squeezed = <PyObject*>squeezed
        page.tail -= page.head
        page.head = 0
    free(page.cells)
    page.cells = NULL
    return 0


cdef int unsqueeze(Page* page) except -1:
    cdef bytes columns
    if page.cells != NULL:
        return 0
    columns = with_constants(<bytes>page.squeezed, page.tail)
    page.cells = <Cell*>malloc(max(<uint32_t>1, page.tail) * sizeof(Cell))
    if page.cells == NULL:
        raise MemoryError
    page.capacity = max(<uint32_t>1, page.tail)
    from_columns(page, <const uint8_t*>PyBytes_AS_STRING(columns))
    return 0


cdef bytes without_constants(bytes columns, uint32_t count):
    """Leave out the columns whose values are all the same but for the first; compress the rest."""
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(columns)
    cdef const uint8_t* column = data
    cdef uint16_t constant = 0
    cdef size_t i, width
    cdef list ends = [], rest = []
    for i in range(COLUMNS):
        width = WIDTHS[i]
        # Equal to itself shifted by one: every value but the first is the same.
        if count > 1 and memcmp(column + width, column + 2 * width, (count - 2) * width) == 0:
            constant |= 1 << i
            ends.append(column[: 2 * width])
        else:
            rest.append(column[: count * width])
        column += count * width
    return b"".join([constant.to_bytes(2, "little"), *ends, compress(b"".join(rest), ZLIB_FAST)])


cdef bytes with_constants(bytes squeezed, uint32_t count):
    """The reverse of without_constants; whatever is wrong with the bytes is a ValueError."""
    cdef uint16_t constant = int.from_bytes(squeezed[:2], "little")
    cdef size_t i, width, at = 2, used = 0
    cdef list columns = []
    cdef bytes rest
    for i in range(COLUMNS):
        at += 2 * WIDTHS[i] if constant >> i & 1 else 0
    try:
        rest = decompress(squeezed[at:])
    except zlib_error as error:
        raise ValueError(f"a squeezed page is damaged: {error}") from None
    at = 2
    for i in range(COLUMNS):
        width = WIDTHS[i]
        if constant >> i & 1:
            columns.append(squeezed[at : at + width] + squeezed[at + width : at + 2 * width] * (count - 1))
            at += 2 * width
        else:
            columns.append(rest[used : used + count * width])
            used += count * width
    squeezed = b"".join(columns)
    if <size_t>len(squeezed) != count * sizeof(Cell):
        raise ValueError("a squeezed page has the wrong size")
    return squeezed


cdef void to_columns(Page* page, uint8_t* out) noexcept:
    """Write the differences between peers, one column after the other."""
    cdef uint32_t i, count = page.tail - page.head
    cdef Cell* cells = page.cells + page.head
    cdef Cell difference, zero
    cdef Cell* before = &zero
    zero.seq = zero.enqueued_ms = zero.offset = zero.size_priority = zero.ttl = 0
    zero.segment = zero.overhead = zero.flags = zero.deliveries = 0
    for i in range(count):
        difference.seq = cells[i].seq - before.seq
        difference.enqueued_ms = cells[i].enqueued_ms - before.enqueued_ms
        difference.offset = cells[i].offset - before.offset - (before.size_priority >> 8)
        difference.size_priority = cells[i].size_priority - before.size_priority
        difference.ttl = cells[i].ttl - before.ttl
        difference.segment = cells[i].segment - before.segment
        difference.overhead = cells[i].overhead - before.overhead
        difference.flags = cells[i].flags
        difference.deliveries = cells[i].deliveries
        spread(&difference, out, i, count)
        before = &cells[i]


cdef inline void spread(Cell* cell, uint8_t* out, uint32_t i, uint32_t count) noexcept:
    memcpy(out + 4 * <size_t>i, &cell.seq, 4)
    memcpy(out + 4 * <size_t>(count + i), &cell.enqueued_ms, 4)
    memcpy(out + 4 * <size_t>(2 * count + i), &cell.offset, 4)
    memcpy(out + 4 * <size_t>(3 * count + i), &cell.size_priority, 4)
    memcpy(out + 4 * <size_t>(4 * count + i), &cell.ttl, 4)
    memcpy(out + 20 * <size_t>count + 2 * <size_t>i, &cell.segment, 2)
    memcpy(out + 22 * <size_t>count + 2 * <size_t>i, &cell.overhead, 2)
    out[24 * <size_t>count + i] = cell.flags
    out[25 * <size_t>count + i] = cell.deliveries


cdef void from_columns(Page* page, const uint8_t* data) noexcept:
    cdef uint32_t i, count = page.tail
    cdef Cell* cells = page.cells
    for i in range(count):
        memcpy(&cells[i].seq, data + 4 * <size_t>i, 4)
        memcpy(&cells[i].enqueued_ms, data + 4 * <size_t>(count + i), 4)
        memcpy(&cells[i].offset, data + 4 * <size_t>(2 * count + i), 4)
        memcpy(&cells[i].size_priority, data + 4 * <size_t>(3 * count + i), 4)
        memcpy(&cells[i].ttl, data + 4 * <size_t>(4 * count + i), 4)
        memcpy(&cells[i].segment, data + 20 * <size_t>count + 2 * <size_t>i, 2)
        memcpy(&cells[i].overhead, data + 22 * <size_t>count + 2 * <size_t>i, 2)
        cells[i].flags = data[24 * <size_t>count + i]
        cells[i].deliveries = data[25 * <size_t>count + i]
        if i:
            cells[i].seq += cells[i - 1].seq
            cells[i].enqueued_ms += cells[i - 1].enqueued_ms
            cells[i].offset += cells[i - 1].offset + (cells[i - 1].size_priority >> 8)
            cells[i].size_priority += cells[i - 1].size_priority
            cells[i].ttl += cells[i - 1].ttl
            cells[i].segment += cells[i - 1].segment
            cells[i].overhead += cells[i - 1].overhead
