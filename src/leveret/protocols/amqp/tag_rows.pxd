from cpython.object cimport PyObject
from libc.stdint cimport uint64_t
from libc.stdlib cimport realloc
from libc.string cimport memmove

cdef enum:
    SLOTS_MIN = 16

cdef struct Tagged:         # what every slot of a row begins with; drawn in leveret/protocols/amqp/unacked.pyx
    uint64_t tag
    PyObject* given         # NULL: settled

cdef inline Tagged* slot_at(void* slots, size_t slot_bytes, Py_ssize_t index) noexcept:
    return <Tagged*>(<char*>slots + index * slot_bytes)

cdef inline Py_ssize_t find_tag(void* slots, size_t slot_bytes, Py_ssize_t first, Py_ssize_t end, uint64_t tag) noexcept:
    """Where a tag is; -1 when it was never given, or is settled."""
    cdef Py_ssize_t low = first, high = end, middle
    cdef uint64_t lowest
    cdef Tagged* found
    if low == high or tag < slot_at(slots, slot_bytes, low).tag:
        return -1
    lowest = slot_at(slots, slot_bytes, low).tag
    if tag - lowest < <uint64_t>(high - low) and slot_at(slots, slot_bytes, low + (tag - lowest)).tag == tag:
        low += <Py_ssize_t>(tag - lowest)
    else:
        while high - low > 1:
            middle = (low + high) // 2
            if slot_at(slots, slot_bytes, middle).tag <= tag:
                low = middle
            else:
                high = middle
    found = slot_at(slots, slot_bytes, low)
    return low if found.tag == tag and found.given != NULL else -1

cdef inline void* grown(void* items, size_t item_bytes, Py_ssize_t count, Py_ssize_t* capacity) except NULL:
    """An array of which so much is used, with room for more."""
    if items == NULL or count * 2 > capacity[0]:
        items = realloc(items, max(capacity[0] * 2, SLOTS_MIN) * item_bytes)
        if items == NULL:
            raise MemoryError
        capacity[0] = max(capacity[0] * 2, SLOTS_MIN)
    return items

cdef inline void* roomy_row(
    void* slots, size_t slot_bytes, Py_ssize_t* first, Py_ssize_t* end, Py_ssize_t* capacity
) except NULL:
    """A row with room for one more: settled slots are closed up, and it grows if half of it is used then."""
    cdef Py_ssize_t i, kept = 0
    for i in range(first[0], end[0]):
        if slot_at(slots, slot_bytes, i).given != NULL:
            memmove(slot_at(slots, slot_bytes, kept), slot_at(slots, slot_bytes, i), slot_bytes)
            kept += 1
    first[0], end[0] = 0, kept
    return grown(slots, slot_bytes, kept, capacity)

cdef inline void* roomy(
    void* items, size_t item_bytes, Py_ssize_t* first, Py_ssize_t* end, Py_ssize_t* capacity
) except NULL:
    """An array with room for one more: what was dropped at its front is closed up, and it grows if half of it is used."""
    cdef Py_ssize_t count = end[0] - first[0]
    if first[0]:
        memmove(items, <char*>items + first[0] * item_bytes, count * item_bytes)
        first[0], end[0] = 0, count
    return grown(items, item_bytes, count, capacity)
