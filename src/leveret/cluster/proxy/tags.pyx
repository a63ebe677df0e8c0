"""Delivery tags of a channel whose messages come from several shards.

What the client sees is numbered in one row; each shard numbers its own part, in the same order.

    slots   | tag 7 | settled | tag 9 | tag 10 |          an array as in leveret/protocols/amqp/unacked.pyx
            first                         end - 1

`MessageNames` has names of messages in the order of a number: those of deliveries that are about to come, by their tags;
those of deliveries that were settled, by the mark that will say that this is durable.

    entries | number | how it was settled | queue | record |         an array; what was dropped at its front is closed up
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, Py_XINCREF
from libc.stdlib cimport free
from libc.string cimport memcpy

from leveret.core.tables cimport big_endian
from leveret.protocols.amqp.tag_rows cimport find_tag, roomy, roomy_row

from leveret.cluster.proxy.claims import unknown
from leveret.wire.replies import ProtocolError, Reply

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

    def renumber(self, uint64_t number) -> list[tuple[int, PackedName]]:
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
        Py_DECREF(<object>self.entries[self.first].name.queue)
        self.first += 1
        if self.first == self.end:
            self.first = self.end = 0


cdef bytes packed(const Name* name):
    """A name as leveret.cluster.proxy.claims has it."""
    return <bytes>name.queue + PyBytes_FromStringAndSize(<const char*>name.record, RECORD_BYTES)


cdef class Tags:
    """What a client was given and has not settled. Shard channels refer to it: it has to be cleared in the end."""

    def __dealloc__(self):
        self.clear()
        free(self.slots)

    def __len__(self) -> int:
        return self.count

    def __contains__(self, uint64_t tag) -> bool:
        return self.place(tag) >= 0

    def tags(self, uint64_t through, uint64_t after=0) -> list[int]:
        """The tags up to this one, and after the other."""
        cdef Py_ssize_t i
        return [
            self.slots[i].tag for i in range(self.first, self.end)
            if self.slots[i].shard_channel != NULL and after < self.slots[i].tag <= through
        ]

    def held(self, shard_channel: "ShardChannelBase") -> list[tuple[str, PackedName]]:
        """The deliveries of a shard channel that the next owner of its shard can find again, with the tags of their consumers."""
        cdef Py_ssize_t i
        return [
            (<str>self.slots[i].consumer, packed(&self.slots[i].name)) for i in range(self.first, self.end)
            if self.slots[i].shard_channel == <PyObject*>shard_channel and self.slots[i].name.queue != NULL
        ]

    def name(self, shard_channel: "ShardChannelBase", MessageNames names not None) -> None:
        """Let the deliveries of a shard channel that have no names have those of their inner tags."""
        cdef Py_ssize_t i
        cdef const Name* name
        for i in range(self.first, self.end):
            if self.slots[i].shard_channel == <PyObject*>shard_channel and self.slots[i].name.queue == NULL:
                name = names.of(self.slots[i].inner)
                if name != NULL:
                    self.slots[i].name = name[0]
                    Py_INCREF(<object>name.queue)

    def lost(self, shard_channel: "ShardChannelBase") -> None:
        """A shard has lost its owner: what its next one cannot find is redelivered, and its tag is forgotten."""
        cdef Py_ssize_t i
        for i in range(self.first, self.end):
            if self.slots[i].shard_channel == <PyObject*>shard_channel and self.slots[i].name.queue == NULL:
                self.slots[i].lost = True

    def take_back(self, shard_channel: "ShardChannelBase") -> None:
        """A shard has taken back all that it had delivered."""
        cdef Py_ssize_t i
        for i in range(self.first, self.end):
            if self.slots[i].shard_channel == <PyObject*>shard_channel:
                self.drop(i)

    def clear(self) -> None:
        while self.first < self.end:
            if self.slots[self.first].shard_channel == NULL:
                self.first += 1
            else:
                self.drop(self.first)
        self.first = self.end = 0

    cdef int push(self, uint64_t tag, uint64_t inner, object shard_channel, str consumer, const Name* name) except -1:
        """A delivery by a shard, which knows it by another tag; `name` may be NULL."""
        cdef Delivery* slot
        if self.end == self.capacity:
            self.slots = <Delivery*>roomy_row(self.slots, sizeof(Delivery), &self.first, &self.end, &self.capacity)
        slot = self.slots + self.end
        slot.tag, slot.inner, slot.lost = tag, inner, False
        slot.shard_channel, slot.consumer, slot.name.queue = <PyObject*>shard_channel, <PyObject*>consumer, NULL
        if name != NULL:
            slot.name = name[0]
        Py_INCREF(shard_channel)
        Py_INCREF(consumer)
        Py_XINCREF(slot.name.queue)
        self.end += 1
        self.count += 1
        return 0

    cdef Py_ssize_t find(self, uint64_t tag) except -1:
        """Where a delivery is; an unknown tag is refused."""
        cdef Py_ssize_t index = self.place(tag)
        if index < 0:
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        return index

    cdef Py_ssize_t place(self, uint64_t tag) noexcept:
        """Where a delivery is; -1: nowhere."""
        return find_tag(self.slots, sizeof(Delivery), self.first, self.end, tag)

    cdef void drop(self, Py_ssize_t index) noexcept:
        cdef Delivery* slot = self.slots + index
        Py_DECREF(<object>slot.shard_channel)
        Py_DECREF(<object>slot.consumer)
        Py_XDECREF(slot.name.queue)
        slot.shard_channel = NULL
        self.count -= 1
        while self.first < self.end and self.slots[self.first].shard_channel == NULL:
            self.first += 1
        if self.first == self.end:
            self.first = self.end = 0
