"""What the counters and lanes of queues say: of one queue, of many of them as columns, of all together."""

from leveret.core.engine cimport Engine
from leveret.core.held cimport BACKING_OFF, Held
from leveret.core.histogram cimport Histogram, PriorityCounts
from leveret.core.queue cimport Counters, Queue
from leveret.core.ready cimport Fifo, MessageGroup, Level, Ready

from leveret.core.ports cimport COUNTED

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF
cdef Counters ZERO      # a global of C: all of it is 0
cdef dict AT = {name: index for index, name in enumerate(ZERO)}     # a struct of such numbers is an array of them

COUNTERS: tuple[str, ...] = tuple(AT)
"""The names of what is counted."""


def column(queues: list[Queue], str name not None) -> list[int]:
    """One counter of many queues."""
    cdef Py_ssize_t index = AT[name]
    cdef Queue queue
    return [(<uint64_t*>&queue.counters)[index] for queue in queues]


def published_by_priority(Queue queue not None) -> dict[int, int]:
    """How many messages of each priority came into a queue; all of them with 0 when it has no priorities."""
    cdef PriorityCounts known = queue.published_by
    return by_priority(queue.counters.published, NULL if known is None else known.counts, 0 if known is None else known.rows)


cdef dict by_priority(uint64_t published, const uint64_t* counts, int rows):
    cdef dict found = {row: counts[row] for row in range(1, rows) if counts[row]}
    cdef uint64_t rest = published - <uint64_t>sum(found.values())
    return {**({0: rest} if rest else {}), **found}


def times(Queue queue not None) -> tuple[Histogram, Histogram] | None:
    """How long messages waited for their first delivery, and how long their last one took, in ms; None: no message."""
    return None if queue.waiting is None else (queue.waiting, queue.processing)


def oldest_ms(Queue queue not None) -> int | None:
    """Since when the message waits that waits longest: it came then, or was due then."""
    cdef uint64_t oldest = oldest_in(queue.ready) if queue.ready is not None else NEVER
    return None if oldest == NEVER else oldest


cdef uint64_t oldest_in(Ready ready) except? 0:
    cdef uint64_t oldest = NEVER
    for level in ready.levels:
        if level is not None:
            oldest = min(oldest, (<Level>level).plain.head_ms())
    for group in (ready.groups or {}).values():
        oldest = min(oldest, (<MessageGroup>group).head_ms())
    return oldest


cdef void add_counters(Counters* sums, const Counters* counters) noexcept:
    cdef Py_ssize_t index
    for index in range(<Py_ssize_t>(sizeof(Counters) // sizeof(uint64_t))):
        (<uint64_t*>sums)[index] += (<const uint64_t*>counters)[index]


cdef class Counted:
    """Notes for history what queues have counted since it was told last, so that the two can be compared.

    What happened after `since_ms` and until a note of it is what that note counts: the time goes on with each.
    """

    cdef readonly uint64_t since_ms
    cdef bint is_due    # something was counted
    cdef dict told      # queue -> its counters when history was told last

    def __cinit__(self):
        self.told = {}

    def begin(self, Engine engine not None) -> int:
        """Count from now on; give the time before that."""
        self.since_ms = engine.now_ms - min(engine.now_ms, <uint64_t>1)
        return self.since_ms

    def note(self, Engine engine not None, queues: Iterable[Queue]) -> None:
        """Note what each of these queues, all there are, has counted."""
        for queue in queues:
            self.note_queue(engine, queue)
        if not self.is_due:
            return
        self.is_due = False
        engine.journal.noted(
            COUNTED, 0xFF, 0, 0, engine.now_ms,
            <uint32_t>min(engine.now_ms - min(engine.now_ms, self.since_ms), <uint64_t>0xFFFFFFFF), 0,
        )
        self.since_ms = engine.now_ms
        engine.advance(engine.now_ms + 1)

    def note_queue(self, Engine engine not None, Queue queue not None) -> None:
        """Note what one queue has counted; a queue that is to go is told of for the last time."""
        cdef Counters before = ZERO
        cdef bytes told = self.told.pop(queue.id, None)
        cdef Py_ssize_t index
        cdef uint64_t more
        if told is not None:
            memcpy(&before, <const char*>told, sizeof(Counters))
        for index in range(<Py_ssize_t>(sizeof(Counters) // sizeof(uint64_t))):
            more = (<uint64_t*>&queue.counters)[index] - (<uint64_t*>&before)[index]
            if more and not (queue.recorder is not None and index == <Py_ssize_t>AT["acked"]):   # a stream settles nothing
                self.is_due = True
                engine.journal.noted(COUNTED, <uint8_t>index, queue.id, more, engine.now_ms, 0, 0)
        if memcmp(&queue.counters, &ZERO, sizeof(Counters)) and not queue.deleted:
            self.told[queue.id] = (<const char*>&queue.counters)[: sizeof(Counters)]


cdef class Tally:
    """Sums over queues: what they hold, and what was counted in them."""

    cdef Counters counters
    cdef uint64_t priorities[256]
    cdef uint64_t published_by[256]     # of priorities above 0
    cdef uint64_t oldest
    cdef readonly uint64_t queues, ready, ready_bytes, leased, scheduled, backing_off, consumers
    cdef readonly Histogram waiting, processing

    def __cinit__(self):
        self.oldest = NEVER
        self.waiting, self.processing = Histogram(), Histogram()

    def add(self, queues: list[Queue]) -> None:
        cdef Queue queue
        for queue in queues:
            self.keep(queue)
            self.queues += 1
            self.leased += queue.leased
            self.scheduled += queue.scheduled
            self.consumers += len(queue.consumers) if queue.consumers is not None else 0
            if queue.recorder is not None:
                self.ready += queue.recorder.length
                self.ready_bytes += queue.recorder.size_bytes
            elif queue.ready is not None:
                self.add_ready(queue.ready)
            if queue.held is not None and <uint64_t>len(queue.held) > queue.leased + queue.scheduled:
                self.backing_off += sum([1 for held in queue.held.values() if (<Held>held).state == BACKING_OFF]) - queue.dlx

    cdef int add_ready(self, Ready ready) except -1:
        if ready.length == 0:
            return 0
        self.ready += ready.length
        self.ready_bytes += ready.bytes
        self.oldest = min(self.oldest, oldest_in(ready))
        for level in ready.levels:
            if level is not None:
                self.add_priority((<Level>level).plain)
        for group in (ready.groups or {}).values():
            self.add_priority(<Fifo>group)
        return 0

    cdef int add_priority(self, Fifo fifo) except -1:
        """Count what waits in a row by the priority of its first message."""
        cdef uint64_t count = fifo.count()
        if count:
            self.priorities[fifo.head_priority()] += count
        return 0

    def keep(self, Queue queue not None) -> None:
        """Add what a queue has counted, and not what it holds: it is to go."""
        cdef Py_ssize_t index
        add_counters(&self.counters, &queue.counters)
        if queue.published_by is not None:
            for index in range(1, queue.published_by.rows):
                self.published_by[index] += queue.published_by.counts[index]
        if queue.waiting is not None:
            self.waiting.add(queue.waiting)
            self.processing.add(queue.processing)

    def merge(self, Tally other not None) -> None:
        """Add what another tally has counted, and not what is held in it."""
        cdef Py_ssize_t index
        add_counters(&self.counters, &other.counters)
        for index in range(1, 256):
            self.published_by[index] += other.published_by[index]
        self.waiting.add(other.waiting)
        self.processing.add(other.processing)

    @property
    def counts(self) -> dict[str, int]:
        return self.counters

    @property
    def published_by_priority(self) -> dict[int, int]:
        """How many messages of each priority came; with 0 are those of queues without priorities, too."""
        return by_priority(self.counters.published, self.published_by, 256)

    @property
    def oldest_ms(self) -> int | None:
        """Since when the message waits that waits longest."""
        return None if self.oldest == NEVER else self.oldest

    @property
    def by_priority(self) -> dict[int, int]:
        """How many messages of each priority wait; a group counts with its next one."""
        return {priority: self.priorities[priority] for priority in range(256) if self.priorities[priority]}
