from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leveret.core.held cimport Held, Holder
from leveret.core.lane cimport Lane
from leveret.core.ports cimport Entry
from leveret.core.returned cimport Returned

cdef struct Place:              # of a message in its group: by time, then by number
    uint64_t ms
    uint64_t seq

cdef class Fifo:
    cdef Lane lane
    cdef Returned returned
    cdef int push(self, Entry* entry) except -1
    cdef int give_back(self, Held held) except -1
    cdef uint64_t count(self) noexcept
    cdef bint returned_first(self) noexcept
    cdef uint64_t head_ms(self) noexcept
    cdef uint8_t head_priority(self) noexcept
    cdef bint returns_before(self, Place* place) noexcept
    cdef Held take(self, Holder queue, uint64_t group)

cdef class MessageGroup(Fifo):
    cdef uint64_t key
    cdef bint listed            # in the rotation of a level
    cdef uint32_t busy          # messages that are leased or back off: they keep the group waiting
    cdef Place* held            # their places in order, from `begin` to `end`
    cdef Place few[2]           # where `held` is while they are not many
    cdef uint32_t begin, end, room
    cdef Place limit            # a batch takes only what is before this place, which another receiver holds
    cdef bint waits(self) noexcept
    cdef int occupy(self, Held held) except -1
    cdef int reserve(self) except -1
    cdef void leave(self, Held held) noexcept

cdef class Level:
    cdef Fifo plain
    cdef object rotation        # groups that may be taken from, in turn
    cdef Py_ssize_t group_turns     # since a message without a group was taken
    cdef int64_t credit
    cdef bint empty(self) noexcept
    cdef uint64_t head_ms(self) noexcept

cdef class Ready:
    cdef list levels
    cdef uint64_t bits[4]       # levels that have something to take
    cdef readonly uint64_t length, bytes
    cdef dict groups
    cdef uint8_t mode
    cdef uint64_t ageing_ms
    cdef bint one_per_group
    cdef int push(self, Entry* entry, uint64_t group) except -1
    cdef int give_back(self, Held held) except -1
    cdef Held take(self, Holder queue, uint64_t now_ms)
    cdef Held take_more(self, Holder queue, uint64_t key)
    cdef int occupy(self, MessageGroup members, Held held) except -1
    cdef int release(self, Held held) except -1
    cdef Held oldest_of_least(self, Holder queue)
    cdef Held oldest_of_waiting_group(self, Holder queue)
    cdef bint remove(self, uint64_t seq, uint8_t priority, uint64_t group, Entry* entry) except -1
    cdef bint find(self, uint64_t seq, uint8_t priority, uint64_t group, Entry* entry) except -1
    cdef Fifo fifo(self, uint8_t priority, uint64_t group)
    cdef Level level(self, uint8_t priority)
    cdef int choose(self, uint64_t now_ms) except -2
    cdef MessageGroup group(self, uint64_t key)
    cdef int list_group(self, MessageGroup group) except -1
    cdef int note(self, int priority) except -1
    cdef int take_back(self, Held held) except -1
    cdef Held take_from(self, Level level, Holder queue)
    cdef Held take_at(self, int priority, Holder queue)
    cdef bint note_removal(self, Fifo fifo, uint8_t priority, uint64_t group) except -1
