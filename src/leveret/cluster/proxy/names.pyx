"""Names of messages in the order of a number: those of deliveries that are about to come, by their tags; those of
deliveries that were settled, by the mark that will say that this is durable.

    entries | number | how it was settled | queue | record |         an array; what was dropped at its front is closed up
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdlib cimport free
from libc.string cimport memcpy

from leveret.core.tables cimport big_endian
from leveret.cluster.proxy.arrays cimport roomy

from leveret.cluster.proxy.claims import unknown

cdef enum:
    METHOD_BYTES = 4


cdef class MessageNames:
    """Names, the oldest first."""

    def __dealloc__(self):
        self.clear()
        free(self.entries)

    def __len__(self) -> int:
        return self.end - self.first

    def clear(self) -> None:
        """Forget all."""
        while self.first < self.end:
            self.drop()

    def learn(self, bytes payload not None) -> None:
        """Keep what claims.NAMES says: names by delivery tags, which rise."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(payload)
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(payload)
        cdef Py_ssize_t at = size if size <= METHOD_BYTES else METHOD_BYTES + 1 + data[METHOD_BYTES]
        cdef Name name
        if at > size or (size - at) % RECORD_BYTES:
            raise unknown("half a record")
        queue = payload[METHOD_BYTES:at]
        name.queue = <PyObject*>queue
        while at < size:
            memcpy(name.record, data + at, RECORD_BYTES)
            self.push(big_endian(data + at, 8), 0, &name)
            at += RECORD_BYTES

    def forget(self, uint64_t through) -> None:
        """Drop all up to a number."""
        while self.first < self.end and self.entries[self.first].number <= through:
            self.drop()

    def renumber(self, uint64_t number) -> list[tuple[int, bytes]]:
        """Give all another number; how each was settled, and which message it is."""
        cdef Py_ssize_t i
        cdef list found = []
        for i in range(self.first, self.end):
            self.entries[i].number = number
            found.append((self.entries[i].how, packed(&self.entries[i].name)))
        return found

    cdef int push(self, uint64_t number, uint8_t how, const Name* name) except -1:
        """Add one; its number is not lower than those before it."""
        if self.end == self.capacity:
            self.entries = <Entry*>roomy(self.entries, sizeof(Entry), &self.first, &self.end, &self.capacity)
        self.entries[self.end] = Entry(number, how, name[0])
        Py_INCREF(<object>name.queue)
        self.end += 1
        return 0

    cdef const Name* of(self, uint64_t number) noexcept:
        """The one with a number, good until the next look, which asks for a higher one; NULL: it is not here."""
        while self.first < self.end and self.entries[self.first].number < number:
            self.drop()
        if self.first < self.end and self.entries[self.first].number == number:
            return &self.entries[self.first].name
        return NULL

    cdef void drop(self) noexcept:
        """Forget the first one."""
        Py_DECREF(<object>self.entries[self.first].name.queue)
        self.first += 1
        if self.first == self.end:
            self.first = self.end = 0


cdef bytes packed(const Name* name):
    """A name as leveret.cluster.proxy.claims has it."""
    return <bytes>name.queue + PyBytes_FromStringAndSize(<const char*>name.record, RECORD_BYTES)
