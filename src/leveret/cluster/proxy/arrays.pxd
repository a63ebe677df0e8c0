from libc.stdlib cimport realloc
from libc.string cimport memmove

cdef enum:
    ITEMS_MIN = 16

cdef inline void* roomy(
    void* items, size_t item_bytes, Py_ssize_t* first, Py_ssize_t* end, Py_ssize_t* capacity
) except NULL:
    """An array with room for one more: what was dropped at its front is closed up, and it grows if half of it is used."""
    cdef Py_ssize_t count = end[0] - first[0]
    if first[0]:
        memmove(items, <char*>items + first[0] * item_bytes, count * item_bytes)
        first[0], end[0] = 0, count
    if items == NULL or count * 2 > capacity[0]:
        items = realloc(items, max(capacity[0] * 2, ITEMS_MIN) * item_bytes)
        if items == NULL:
            raise MemoryError
        capacity[0] = max(capacity[0] * 2, ITEMS_MIN)
    return items
