"""What can be taken from a queue now, and in which order.

    Ready = Level for each priority in use (a bitmap says which have something)
    Level = a plain Fifo, and the groups whose turn it can be
    Fifo  = Lane of waiting messages + those given back, which go before what came after them
    Group = a Fifo of one message group; while one of its messages is held, only messages that were received before and
            returned can be taken, and only those in front of everything that is held
"""

cimport cython
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memmove

from collections import deque

from leveret.core.held cimport GIVEN_BACK, new_held

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum Mode:
    STRICT = 0      # the highest priority always first
    WEIGHTED = 1    # priority p gets p + 1 turns
    AGEING = 2      # a waiting message rises one level each ageing_ms

MODES = {"strict": STRICT, "weighted": WEIGHTED, "ageing": AGEING}
cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF


cdef inline uint32_t body_bytes(Entry* entry) noexcept:
    return entry.place.size - entry.overhead


cdef inline bint before(uint64_t ms, uint64_t seq, Place* place) noexcept:
    return seq < place.seq if ms == place.ms else ms < place.ms


cdef class Fifo:
    """Messages in order of (time that they became ready, number)."""

    cdef int push(self, Entry* entry) except -1:
        """Add a new message behind all others."""
        if self.lane is None:
            self.lane = Lane.__new__(Lane)
        return self.lane.push(entry)

    cdef int give_back(self, Held held) except -1:
        """Put a message back to the place that it had."""
        held.state = GIVEN_BACK
        held.when_ms = held.ready_ms
        if self.returned is None:
            self.returned = Returned.__new__(Returned)
        return self.returned.add(held)

    cdef uint64_t count(self) noexcept:
        return (self.lane.length if self.lane is not None else 0) + (
            self.returned.length if self.returned is not None else 0
        )

    cdef bint returned_first(self) noexcept:
        """Whether the next message is one that was given back."""
        cdef Entry entry
        cdef Held held
        if self.returned is None or self.returned.length == 0:
            return False
        if self.lane is None or not self.lane.peek(&entry):
            return True
        held = self.returned.first()
        if held.ready_ms != entry.enqueued_ms:
            return held.ready_ms < entry.enqueued_ms
        return held.entry.seq < entry.seq

    cdef uint64_t head_ms(self) noexcept:
        """When the next message became ready."""
        cdef Entry entry
        if self.returned_first():
            return self.returned.first().ready_ms
        return entry.enqueued_ms if self.lane is not None and self.lane.peek(&entry) else NEVER

    cdef uint8_t head_priority(self) noexcept:
        cdef Entry entry
        if self.returned_first():
            return self.returned.first().entry.priority
        return entry.priority if self.lane is not None and self.lane.peek(&entry) else 0

    cdef bint returns_before(self, Place* place) noexcept:
        """Whether the next message was received before, and has its place before another one."""
        cdef Entry entry
        cdef Held held
        if self.returned_first():
            held = self.returned.first()
            return held.entry.deliveries > 0 and before(held.ready_ms, held.entry.seq, place)
        if self.lane is None or not self.lane.peek(&entry):
            return False
        return entry.deliveries > 0 and before(entry.enqueued_ms, entry.seq, place)

    cdef Held take(self, Holder queue, uint64_t group):
        """The next message; there must be one."""
        cdef Entry entry
        cdef Held held
        if self.returned_first():
            held = self.returned.first()
            self.returned.remove(held)
            return held
        self.lane.peek(&entry)
        self.lane.pop()
        return new_held(queue, &entry, entry.enqueued_ms, group)


@cython.final
cdef class MessageGroup(Fifo):
    """The messages of one group.

    A receiver takes the messages of a group in order, so `held` is appended to, except when messages that returned are
    taken again. `held` lacks messages that were taken while the queue had other rules: the group waits for all then.
    """

    def __dealloc__(self):
        if self.held != self.few:
            free(self.held)

    cdef bint waits(self) noexcept:
        """Whether the next message cannot be taken before one that is held leaves or returns."""
        if self.busy == 0:
            return False
        return self.busy != self.end - self.begin or not self.returns_before(&self.held[self.begin])

    cdef int occupy(self, Held held) except -1:
        """Note the place of a message that is held from now on."""
        cdef uint32_t at
        if self.end == self.room:
            self.reserve()
        at = self.end
        while at > self.begin and before(held.ready_ms, held.entry.seq, &self.held[at - 1]):
            self.held[at] = self.held[at - 1]
            at -= 1
        self.held[at].ms = held.ready_ms
        self.held[at].seq = held.entry.seq
        self.end += 1
        return 0

    cdef int reserve(self) except -1:
        """Make room for one more place: at the front, where places were given up, or by twice as much memory."""
        cdef uint32_t count = self.end - self.begin
        cdef Place* larger
        if self.room == 0:
            self.held, self.room = self.few, 2
            return 0
        if count <= self.room // 2:
            memmove(self.held, self.held + self.begin, count * sizeof(Place))
            self.begin, self.end = 0, count
            return 0
        larger = <Place*>malloc(2 * <size_t>self.room * sizeof(Place))
        if larger == NULL:
            raise MemoryError
        memcpy(larger, self.held + self.begin, count * sizeof(Place))
        if self.held != self.few:
            free(self.held)
        self.held = larger
        self.begin, self.end, self.room = 0, count, 2 * self.room
        return 0

    cdef void leave(self, Held held) noexcept:
        cdef uint32_t low = self.begin, high = self.end, middle
        if self.held[low].seq == held.entry.seq:        # most are settled in order
            high = low
        while low < high:
            middle = low + (high - low) // 2
            if before(held.ready_ms, held.entry.seq, &self.held[middle]):
                high = middle
            elif self.held[middle].seq == held.entry.seq:
                low = high = middle
            else:
                low = middle + 1
        if low == self.end or self.held[low].seq != held.entry.seq:
            return
        if low == self.begin:
            self.begin += 1
        else:
            memmove(self.held + low, self.held + low + 1, (self.end - low - 1) * sizeof(Place))
            self.end -= 1
        if self.begin == self.end:
            self.begin = self.end = 0


cdef class Level:
    """The messages of one priority."""

    def __cinit__(self):
        self.plain = Fifo.__new__(Fifo)

    cdef bint empty(self) noexcept:
        return self.plain.count() == 0 and not self.rotation

    cdef uint64_t head_ms(self) noexcept:
        """When the longest waiting of the next messages became ready."""
        cdef uint64_t plain = self.plain.head_ms()
        return min(plain, (<MessageGroup>self.rotation[0]).head_ms()) if self.rotation else plain


cdef class Ready:
    """Everything in a queue that waits to be taken."""

    def __cinit__(self):
        self.levels = []

    def configure(self, str mode, uint64_t ageing_ms, bint one_per_group) -> None:
        self.mode = MODES[mode]
        self.ageing_ms = ageing_ms
        self.one_per_group = one_per_group
        for group in list((self.groups or {}).values()):
            self.list_group(<MessageGroup>group)

    cdef Level level(self, uint8_t priority):
        """The level of a priority, made when first needed."""
        while len(self.levels) <= priority:
            self.levels.append(None)
        if self.levels[priority] is None:
            self.levels[priority] = Level.__new__(Level)
        return <Level>self.levels[priority]

    cdef int note(self, int priority) except -1:
        """Set or clear the bit of a level."""
        cdef uint64_t bit = <uint64_t>1 << (priority & 63)
        if (<Level>self.levels[priority]).empty():
            self.bits[priority >> 6] &= ~bit
        else:
            self.bits[priority >> 6] |= bit
        return 0

    cdef MessageGroup group(self, uint64_t key):
        """The group of a key, made when first needed."""
        cdef MessageGroup found
        if self.groups is None:
            self.groups = {}
        found = self.groups.get(key)
        if found is None:
            found = self.groups[key] = MessageGroup.__new__(MessageGroup)
            found.key = key
        return found

    cdef int list_group(self, MessageGroup group) except -1:
        """Let a group take its turn, if it may; forget it when nothing of it is left."""
        cdef uint8_t priority
        cdef Level level
        if group.listed or (self.one_per_group and group.waits()):
            return 0
        if group.count() == 0:
            if group.busy == 0:
                self.groups.pop(group.key, None)
            return 0
        priority = group.head_priority()
        level = self.level(priority)
        if level.rotation is None:
            level.rotation = deque()
        level.rotation.append(group)
        group.listed = True
        return self.note(priority)

    cdef int push(self, Entry* entry, uint64_t group) except -1:
        cdef MessageGroup members
        self.length += 1
        self.bytes += body_bytes(entry)
        if group:
            members = self.group(group)
            members.push(entry)
            return self.list_group(members)
        self.level(entry.priority).plain.push(entry)
        self.bits[entry.priority >> 6] |= <uint64_t>1 << (entry.priority & 63)
        return 0

    cdef int give_back(self, Held held) except -1:
        """A message that was held waits again, at the place that it had."""
        cdef MessageGroup members
        self.length += 1
        self.bytes += body_bytes(&held.entry)
        if held.group:
            members = self.group(held.group)
            members.give_back(held)
            return self.list_group(members)
        self.level(held.entry.priority).plain.give_back(held)
        return self.note(held.entry.priority)

    cdef int occupy(self, MessageGroup members, Held held) except -1:
        """A message of a group is held from now on."""
        members.busy += 1
        return members.occupy(held) if self.one_per_group else 0

    cdef int release(self, Held held) except -1:
        cdef MessageGroup members = self.group(held.group)
        if members.busy:
            members.busy -= 1
        if members.end:
            members.leave(held)
        return self.list_group(members)

    cdef int choose(self, uint64_t now_ms) except -2:
        """The level to take from, or -1."""
        cdef int word, priority, best = -1
        cdef int64_t total = 0, score, best_score = 0
        cdef uint64_t bits
        cdef Level level
        for word in range(3, -1, -1):
            bits = self.bits[word]
            while bits:
                priority = word * 64 + 63 - __builtin_clzll(bits)
                if self.mode == STRICT:
                    return priority
                bits &= ~(<uint64_t>1 << (priority & 63))
                level = <Level>self.levels[priority]
                if self.mode == WEIGHTED:
                    level.credit += priority + 1
                    total += priority + 1
                    score = level.credit
                else:
                    score = <int64_t>(priority * self.ageing_ms + now_ms - min(now_ms, level.head_ms()))
                if best < 0 or score > best_score:
                    best = priority
                    best_score = score
        if self.mode == WEIGHTED and best >= 0:
            (<Level>self.levels[best]).credit -= total
        return best

    cdef Held take(self, Holder queue, uint64_t now_ms):
        """The next message in order, or None."""
        cdef int priority
        cdef Held held = None
        while held is None:
            priority = self.choose(now_ms)
            if priority < 0:
                return None
            held = self.take_at(priority, queue)
        return held

    cdef Held take_more(self, Holder queue, uint64_t key):
        """The next message of a group that the caller holds messages of already; None when it has no more."""
        cdef MessageGroup members = self.groups.get(key)
        cdef Held held
        if members is None or members.count() == 0:
            return None
        if members.limit.ms != NEVER and not members.returns_before(&members.limit):
            return None
        held = members.take(queue, key)
        self.occupy(members, held)
        self.length -= 1
        self.bytes -= body_bytes(&held.entry)
        return held

    cdef Held take_at(self, int priority, Holder queue):
        """The next message of a priority; None when only emptied groups were listed there."""
        cdef Held held = self.take_from(<Level>self.levels[priority], queue)
        self.note(priority)
        if held is not None:
            self.length -= 1
            self.bytes -= body_bytes(&held.entry)
        return held

    cdef Held take_from(self, Level level, Holder queue):
        """The next message of a level: groups in turn, ungrouped messages being one of them."""
        cdef MessageGroup members
        cdef Held held
        while level.rotation and (level.plain.count() == 0 or level.group_turns < len(level.rotation)):
            members = <MessageGroup>level.rotation.popleft()
            members.listed = False
            if members.count() == 0 or (self.one_per_group and members.waits()):
                self.list_group(members)        # it was emptied, or must wait by now: it is listed again in time
                continue
            level.group_turns += 1
            members.limit.ms = NEVER
            if members.begin != members.end:
                members.limit = members.held[members.begin]
            held = members.take(queue, members.key)
            self.occupy(members, held)
            if not self.one_per_group:      # else the group waits: nothing of it is before what was just taken
                self.list_group(members)
            return held
        level.group_turns = 0
        return level.plain.take(queue, 0) if level.plain.count() else None

    cdef Held oldest_of_least(self, Holder queue):
        """The message to drop when the queue is over its length: the oldest of the lowest priority."""
        cdef int word
        cdef Held held
        for word in range(4):
            while self.bits[word]:
                held = self.take_at(word * 64 + __builtin_ctzll(self.bits[word]), queue)
                if held is not None:
                    return held
        return self.oldest_of_waiting_group(queue)

    cdef Held oldest_of_waiting_group(self, Holder queue):
        """The first message of the oldest group that cannot take its turn now: a limit holds for it too."""
        cdef Held held
        for group in (self.groups or {}).values():
            if (<MessageGroup>group).count():
                held = (<MessageGroup>group).take(queue, (<MessageGroup>group).key)
                self.occupy(<MessageGroup>group, held)
                self.length -= 1
                self.bytes -= body_bytes(&held.entry)
                return held
        return None

    cdef bint remove(self, uint64_t seq, uint8_t priority, uint64_t group, Entry* entry) except -1:
        """Take a waiting message out of the middle of its lane."""
        cdef Fifo fifo = self.fifo(priority, group)
        if fifo is None or fifo.lane is None or not fifo.lane.remove(seq, entry):
            return False
        self.length -= 1
        self.bytes -= body_bytes(entry)
        return self.note_removal(fifo, priority, group)

    cdef bint find(self, uint64_t seq, uint8_t priority, uint64_t group, Entry* entry) except -1:
        cdef Fifo fifo = self.fifo(priority, group)
        return fifo is not None and fifo.lane is not None and fifo.lane.find(seq, entry)

    cdef Fifo fifo(self, uint8_t priority, uint64_t group):
        """The fifo of a group, or of ungrouped messages of a priority; None when there is none."""
        if group:
            return None if self.groups is None else self.groups.get(group)
        if priority >= len(self.levels) or self.levels[priority] is None:
            return None
        return (<Level>self.levels[priority]).plain

    cdef int take_back(self, Held held) except -1:
        """Take out a message that was given back."""
        cdef Fifo fifo = self.fifo(held.entry.priority, held.group)
        fifo.returned.remove(held)
        self.length -= 1
        self.bytes -= body_bytes(&held.entry)
        self.note_removal(fifo, held.entry.priority, held.group)
        return 0

    cdef bint note_removal(self, Fifo fifo, uint8_t priority, uint64_t group) except -1:
        """A message went from the middle; a group that is empty now leaves when its turn comes, or at once."""
        if group == 0:
            self.note(priority)
        else:
            self.list_group(<MessageGroup>fifo)
        return True

    def clear(self, dict places) -> list[int]:
        """Let everything go; give the numbers, and add to `places` how many records left each segment."""
        cdef list gone = []
        cdef Entry entry
        cdef Fifo fifo
        cdef Held held
        cdef uint64_t seq
        for fifo in self.fifos():
            if fifo.lane is not None:
                fifo.lane.count_segments(places)
                seq = 0
                while fifo.lane.after(seq, &entry):
                    seq = entry.seq
                    gone.append(seq)
            for held in list(fifo.returned) if fifo.returned is not None else ():
                gone.append(held.entry.seq)
                if held.entry.place.segment:
                    places[held.entry.place.segment] = places.get(held.entry.place.segment, 0) + 1
                held.slot = 0
            fifo.lane = None
            fifo.returned = None
        self.groups = {key: group for key, group in (self.groups or {}).items() if (<MessageGroup>group).busy} or None
        for group in (self.groups or {}).values():
            (<MessageGroup>group).listed = False
        self.levels = []
        self.bits[0] = self.bits[1] = self.bits[2] = self.bits[3] = 0
        self.length = self.bytes = 0
        return gone

    def fifos(self) -> list[Fifo]:
        """Every fifo, highest priority first; groups after the plain ones."""
        found = [(<Level>level).plain for level in reversed(self.levels) if level is not None]
        return found + list(self.groups.values()) if self.groups else found
