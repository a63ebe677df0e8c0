from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leveret.core.held cimport Held, Holder
from leveret.core.lane cimport Lane
from leveret.core.ports cimport Entry
from leveret.core.timers cimport Timers

cdef class Fifo:
    cdef Lane lane
    cdef Timers returned
    cdef int push(self, Entry* entry) except -1
    cdef int give_back(self, Held held) except -1
    cdef uint64_t count(self) noexcept
    cdef bint returned_first(self) noexcept
    cdef uint64_t head_ms(self) noexcept
    cdef uint8_t head_priority(self) noexcept
    cdef Held take(self, Holder queue, uint64_t group)

cdef class Group(Fifo):
    cdef uint64_t key
    cdef uint32_t busy          # leased or backing off: they keep the group waiting
    cdef bint listed            # in the rotation of a level

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
    cdef int release(self, uint64_t group) except -1
    cdef Held oldest_of_least(self, Holder queue)
    cdef Held oldest_of_waiting_group(self, Holder queue)
    cdef bint remove(self, uint64_t seq, uint8_t priority, uint64_t group, Entry* entry) except -1
    cdef bint find(self, uint64_t seq, uint8_t priority, uint64_t group, Entry* entry) except -1
    cdef Fifo fifo(self, uint8_t priority, uint64_t group)
    cdef Level level(self, uint8_t priority)
    cdef int choose(self, uint64_t now_ms) except -2
    cdef Group group(self, uint64_t key)
    cdef int list_group(self, Group group) except -1
    cdef int note(self, int priority) except -1
    cdef int take_back(self, Held held) except -1
    cdef Held take_from(self, Level level, Holder queue)
    cdef Held take_at(self, int priority, Holder queue)
    cdef bint note_removal(self, Fifo fifo, uint8_t priority, uint64_t group) except -1
