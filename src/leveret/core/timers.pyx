"""The one time index: lease deadlines, delays, expiry, idle queues.

A binary heap whose members know their index, so that a lease that is acknowledged leaves at once and nothing
stale piles up behind a long timeout. Deadlines mostly arrive in order: then an insert does not move anything.
"""


cdef class Timer:
    """Something that is due at a time."""

    cdef int fire(self, uint64_t now_ms) except -1:
        """Act; the timer is in no heap any more."""
        raise NotImplementedError


cdef class Alarm(Timer):
    """Calls a function with the time when one has come; for what is not worth a class of its own."""

    def __init__(self, Timers timers not None, action: Callable[[int], None]) -> None:
        self.timers = timers
        self.action = action

    def set(self, uint64_t when_ms) -> None:
        """Call at this time, and not at the one that was set before."""
        self.stop()
        self.when_ms = when_ms
        self.timers.add(self)

    def stop(self) -> None:
        """Do not call."""
        if self.slot:
            self.timers.remove(self)

    cdef int fire(self, uint64_t now_ms) except -1:
        self.action(now_ms)
        return 0


cdef inline bint before(Timer a, Timer b):
    return a.when_ms < b.when_ms or (a.when_ms == b.when_ms and a.tie < b.tie)


cdef class Timers:
    """Timers by time; the earliest is first."""

    def __cinit__(self):
        self.items = []

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self):
        return iter(self.items)

    cdef int add(self, Timer timer) except -1:
        """Insert a timer that is in no heap."""
        assert timer.slot == 0, "a timer is in one heap at a time"
        self.items.append(timer)
        self.rise(len(self.items) - 1, timer)
        return 0

    cdef int remove(self, Timer timer) except -1:
        """Take out a timer that is in this heap."""
        cdef Py_ssize_t index = timer.slot - 1
        cdef Timer last = <Timer>self.items.pop()
        timer.slot = 0
        if last is timer:
            return 0
        if before(last, timer):
            self.rise(index, last)
        else:
            self.sink(index, last)
        return 0

    cdef Timer first(self):
        """The earliest timer, or None."""
        return <Timer>self.items[0] if self.items else None

    cdef void rise(self, Py_ssize_t index, Timer timer):
        cdef Py_ssize_t parent
        cdef Timer other
        while index > 0:
            parent = (index - 1) // 2
            other = <Timer>self.items[parent]
            if not before(timer, other):
                break
            self.items[index] = other
            other.slot = index + 1
            index = parent
        self.items[index] = timer
        timer.slot = index + 1

    cdef void sink(self, Py_ssize_t index, Timer timer):
        cdef Py_ssize_t child, count = len(self.items)
        cdef Timer other
        while True:
            child = 2 * index + 1
            if child >= count:
                break
            if child + 1 < count and before(<Timer>self.items[child + 1], <Timer>self.items[child]):
                child += 1
            other = <Timer>self.items[child]
            if not before(other, timer):
                break
            self.items[index] = other
            other.slot = index + 1
            index = child
        self.items[index] = timer
        timer.slot = index + 1
