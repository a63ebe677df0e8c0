"""Confirms of a channel whose publishes go to several shards: one is safe when every shard that it went to says so.

    Confirms    | number 7 | 8 | 9 | 10 |       by the numbers that the client knows: how many shards have not spoken
    Sent        | 7 | 9 | 10 |                  of one shard, which numbers these anew: 1, 2, 3
"""

from collections.abc import Iterable
from typing import NamedTuple

from libc.stdlib cimport free

from leveret.protocols.amqp.tag_rows cimport roomy

cdef uint64_t SPOKEN = 0xFFFFFFFFFFFFFFFF   # in the place of a number: its shard has said what became of it


class Verdict(NamedTuple):
    """What is to be said of publishes: of one, or of all up to it that nothing was said of."""

    number: int
    multiple: bool
    safe: bool


cdef class Sent:
    """The publishes that one shard has not spoken of, in its order; 0: its outcome is not wanted."""

    def __dealloc__(self):
        free(self.numbers)

    def __bool__(self) -> bool:
        return self.first < self.end

    cdef int push(self, uint64_t number) except -1:
        if self.end == self.capacity:
            self.numbers = <uint64_t*>roomy(self.numbers, sizeof(uint64_t), &self.first, &self.end, &self.capacity)
        self.numbers[self.end] = number
        self.end += 1
        return 0

    cdef uint64_t pop(self) noexcept:
        self.first += 1
        self.gone += 1
        return self.numbers[self.first - 1]


cdef class Confirms:
    """Publishes of which not every shard has spoken."""

    def __dealloc__(self):
        free(self.slots)

    def __len__(self) -> int:
        return self.count

    @property
    def is_idle(self) -> bool:
        """Whether every shard has spoken of everything that it was sent."""
        return self.unspoken == 0

    def sent(self, uint64_t number, shards: Iterable[Sent]) -> None:
        """A publish goes to some shards; 0: its outcome is not wanted."""
        for shard in shards:
            self.note(shard, number)

    def heard(self, Sent sent not None, uint64_t inner, bint multiple, bint safe) -> list[Verdict]:
        """A shard has spoken; give what the client can be told now."""
        cdef uint64_t number
        cdef Py_ssize_t index
        if multiple:
            while sent.first < sent.end and sent.gone < inner:
                number = sent.pop()
                self.speak(number, safe)
        elif inner > sent.gone and inner - sent.gone <= <uint64_t>(sent.end - sent.first):
            index = sent.first + <Py_ssize_t>(inner - sent.gone - 1)
            self.speak(sent.numbers[index], safe)
            sent.numbers[index] = SPOKEN
            while sent.first < sent.end and sent.numbers[sent.first] == SPOKEN:
                sent.pop()
        return self.verdicts()

    def lost(self, Sent sent not None) -> list[Verdict]:
        """A shard is gone, and it is unknown whether it had the last publishes: they are to be sent again."""
        while sent.first < sent.end:
            self.speak(sent.pop(), False)
        sent.gone = 0
        return self.verdicts()

    cdef int note(self, Sent sent, uint64_t number) except -1:
        sent.push(number)
        self.unspoken += 1
        if number == 0:
            return 0
        if self.first == self.end:
            self.first_number = number
        while self.first_number + (self.end - self.first) < number:
            self.add(True)   # it went nowhere, and the client knows
        if self.first_number + (self.end - self.first) == number:
            self.add(False)
            self.count += 1
        self.slots[self.first + (number - self.first_number)].missing += 1
        return 0

    cdef int add(self, bint told) except -1:
        if self.end == self.capacity:
            self.slots = <Publish*>roomy(self.slots, sizeof(Publish), &self.first, &self.end, &self.capacity)
        self.slots[self.end] = Publish(0, False, told)
        self.end += 1
        return 0

    cdef void speak(self, uint64_t number, bint safe) noexcept:
        """One shard has said what became of a publish."""
        cdef Publish* slot
        if number == SPOKEN:
            return
        self.unspoken -= 1
        if number == 0:
            return
        slot = self.slots + self.first + (number - self.first_number)
        slot.refused = slot.refused or not safe
        slot.missing -= 1
        if slot.missing == 0:
            self.count -= 1
            self.highest = max(self.highest, number)
            self.lowest = number if self.lowest == 0 else min(self.lowest, number)

    cdef list verdicts(self):
        """What was decided: a run of safe ones from the first on, with nothing undecided before, is one verdict."""
        cdef Publish* slot
        cdef uint64_t number, run = 0
        cdef Py_ssize_t count = 0
        cdef list found = []
        while self.first < self.end:
            slot = self.slots + self.first
            if slot.missing or (slot.refused and not slot.told):
                break
            if not slot.told:
                run = self.first_number
                count += 1
            self.first += 1
            self.first_number += 1
        if count:
            found.append(Verdict(run, count > 1, True))
        if self.highest:
            for number in range(max(self.lowest, self.first_number), self.highest + 1):
                slot = self.slots + self.first + (number - self.first_number)
                if slot.missing == 0 and not slot.told:
                    slot.told = True
                    found.append(Verdict(number, False, not slot.refused))
        while self.first < self.end and self.slots[self.first].told:
            self.first += 1
            self.first_number += 1
        self.lowest = self.highest = 0
        return found

