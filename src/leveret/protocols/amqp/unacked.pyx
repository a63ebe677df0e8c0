"""The deliveries of a channel that are not settled: delivery tag -> message, in the order of the tags.

    slots   | tag 7 | settled | tag 9 | tag 10 | settled | tag 12 |          an array; settled slots at its front are skipped,
            first                                             end - 1        the others closed up when they are too many

Most of the time tags are dense, and the place of one is known without a search.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from leveret.protocols.amqp.tag_rows cimport find_tag, roomy_row
from leveret.core.held cimport LEASED

cdef class Unacked:
    """What a channel was given and has not settled."""

    def __dealloc__(self):
        cdef Py_ssize_t i
        for i in range(self.first, self.end):
            if self.slots[i].held != NULL:
                Py_DECREF(<object>self.slots[i].held)
        free(self.slots)

    def __len__(self) -> int:
        return self.count

    def __contains__(self, uint64_t tag) -> bool:
        return self.find(tag) >= 0

    def append(self, uint64_t tag, Held held not None) -> None:
        """Add a delivery; its tag is larger than all before it."""
        self.push(tag, held)

    def get(self, uint64_t tag) -> Held | None:
        """The message of a tag."""
        cdef Py_ssize_t index = self.find(tag)
        return None if index < 0 else <Held>self.slots[index].held

    def oldest(self) -> Held | None:
        """The delivery that has waited for the longest time, of those whose messages are still the client's."""
        cdef Py_ssize_t i
        cdef Held held
        for i in range(self.first, self.end):
            if self.slots[i].held != NULL:
                held = <Held>self.slots[i].held
                if held.state == LEASED and held.lease == self.slots[i].lease:
                    return held
        return None

    def pop(self, uint64_t tag) -> Held | None:
        """Take out the message of a tag."""
        cdef uint64_t lease
        cdef Py_ssize_t index = self.find(tag)
        return None if index < 0 else self.pop_at(index, &lease)

    def tags(self, uint64_t through, uint64_t after=0) -> list[int]:
        """The tags up to this one, and after the other."""
        cdef Py_ssize_t low = self.first, high = self.end, middle
        cdef list found = []
        while low < high:
            middle = (low + high) // 2
            if self.slots[middle].tag <= after:
                low = middle + 1
            else:
                high = middle
        while low < self.end and self.slots[low].tag <= through:
            if self.slots[low].held != NULL:
                found.append(self.slots[low].tag)
            low += 1
        return found

    def identities(self, uint64_t through, uint64_t after) -> list[tuple[str, bytes]]:
        """Which messages the deliveries up to a tag, and after the other, are: queues, and records in the order of tags.

        record: | u64 tag | u64 number | u64 published at, in ms | u64 group | u32 deliveries | u8 priority |
        """
        cdef Py_ssize_t i = self.end
        cdef Held held
        cdef object queue = None
        cdef bytearray records = bytearray()
        cdef uint8_t record[RECORD_BYTES]
        cdef list found = []
        while i > self.first and self.slots[i - 1].tag > after:
            i -= 1
        for i in range(i, self.end):
            if self.slots[i].tag > through:
                break
            held = self.identify(i, record)
            if held is None:
                continue
            if held.queue is not queue:
                queue, records = held.queue, bytearray()
                found.append((queue.name, records))
            PyByteArray_Resize(records, PyByteArray_GET_SIZE(records) + RECORD_BYTES)
            memcpy(PyByteArray_AS_STRING(records) + PyByteArray_GET_SIZE(records) - RECORD_BYTES, record, RECORD_BYTES)
        return [(name, bytes(each)) for name, each in found]

    cdef Held identify(self, Py_ssize_t index, uint8_t* record):
        """Write which message a delivery is; None when it is settled, or not the client's any more."""
        cdef Held held = None if self.slots[index].held == NULL else <Held>self.slots[index].held
        if held is None or held.state != LEASED or held.lease != self.slots[index].lease:
            return None
        put(record, self.slots[index].tag)
        put(record + 8, held.entry.seq)
        put(record + 16, held.entry.enqueued_ms)
        put(record + 24, held.group)
        put_short(record + 32, held.entry.deliveries)
        record[36] = held.entry.priority
        return held

    def take_all(self) -> list[tuple[int, int, Held]]:
        """Every tag, the lease that it stands for, and its message; nothing is left."""
        cdef Py_ssize_t i
        cdef uint64_t tag, lease
        cdef Held held
        cdef list taken = []
        for i in range(self.first, self.end):
            if self.slots[i].held != NULL:
                tag = self.slots[i].tag
                held = self.pop_at(i, &lease)
                taken.append((tag, lease, held))
        self.first = self.end = 0
        return taken

    cdef int push(self, uint64_t tag, Held held) except -1:
        if self.end == self.capacity:
            self.slots = <Slot*>roomy_row(self.slots, sizeof(Slot), &self.first, &self.end, &self.capacity)
        self.slots[self.end] = Slot(tag, <PyObject*>held, held.lease)
        Py_INCREF(held)
        self.end += 1
        self.count += 1
        return 0

    cdef Py_ssize_t find(self, uint64_t tag) noexcept:
        """Where a tag is; -1 when it was never given, or is settled."""
        return find_tag(self.slots, sizeof(Slot), self.first, self.end, tag)

    cdef Held pop_at(self, Py_ssize_t index, uint64_t* lease):
        """Take out what `find` found."""
        cdef Held held = <Held>self.slots[index].held
        lease[0] = self.slots[index].lease
        self.slots[index].held = NULL
        Py_DECREF(held)
        self.count -= 1
        while self.first < self.end and self.slots[self.first].held == NULL:
            self.first += 1
        if self.first == self.end:
            self.first = self.end = 0
        return held


cdef inline void put(uint8_t* out, uint64_t value) noexcept:
    """Write a number of eight bytes, its highest one first."""
    cdef int i
    for i in range(8):
        out[i] = <uint8_t>(value >> (56 - 8 * i))


cdef inline void put_short(uint8_t* out, uint32_t value) noexcept:
    """Write a number of four bytes, its highest one first."""
    cdef int i
    for i in range(4):
        out[i] = <uint8_t>(value >> (24 - 8 * i))
