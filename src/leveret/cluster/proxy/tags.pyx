"""Delivery tags of a channel whose messages come from several shards.

What the client sees is numbered in one row; each shard numbers its own part, in the same order.

    slots   | tag 7 | settled | tag 9 | tag 10 |          an array as in leveret/protocols/amqp/unacked.pyx
            first                         end - 1
"""

from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF, Py_XINCREF
from libc.stdlib cimport free

from leveret.protocols.amqp.tag_rows cimport find_tag, roomy_row
from leveret.cluster.proxy.names cimport MessageNames, packed

from leveret.protocols.amqp.replies import ProtocolError, Reply


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

    def held(self, shard_channel) -> list[tuple[str, bytes]]:
        """The deliveries of a shard channel that the next owner of its shard can find again, with the tags of their consumers."""
        cdef Py_ssize_t i
        return [
            (<str>self.slots[i].consumer, packed(&self.slots[i].name)) for i in range(self.first, self.end)
            if self.slots[i].shard_channel == <PyObject*>shard_channel and self.slots[i].name.queue != NULL
        ]

    def name(self, shard_channel, MessageNames names not None) -> None:
        """Let the deliveries of a shard channel that have no names have those of their inner tags."""
        cdef Py_ssize_t i
        cdef const Name* name
        for i in range(self.first, self.end):
            if self.slots[i].shard_channel == <PyObject*>shard_channel and self.slots[i].name.queue == NULL:
                name = names.of(self.slots[i].inner)
                if name != NULL:
                    self.slots[i].name = name[0]
                    Py_INCREF(<object>name.queue)

    def lost(self, shard_channel) -> None:
        """A shard has lost its owner: what its next one cannot find is redelivered, and its tag is forgotten."""
        cdef Py_ssize_t i
        for i in range(self.first, self.end):
            if self.slots[i].shard_channel == <PyObject*>shard_channel and self.slots[i].name.queue == NULL:
                self.slots[i].lost = True

    def take_back(self, shard_channel) -> None:
        """A shard has taken back all that it had delivered."""
        cdef Py_ssize_t i
        for i in range(self.first, self.end):
            if self.slots[i].shard_channel == <PyObject*>shard_channel:
                self.drop(i)

    def clear(self) -> None:
        """Everything goes back."""
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
        """Forget a delivery."""
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
