"""A message that is not simply waiting in its lane: delayed, given back, or leased.

    publish -> lane ---take---> LEASED ---ack, reject---> DONE
            \\-> SCHEDULED -due-> |  ^ |
                    GIVEN_BACK ----+ | +--nack, timeout--> GIVEN_BACK
                         ^-- due -- BACKING_OFF <--nack with delay--+
"""

cimport cython


cdef class Holder:
    """The queue, as far as its held messages know it."""

    cdef int due(self, Held held, uint64_t now_ms) except -1:
        raise NotImplementedError


@cython.no_gc           # its only cycle, with its queue, is cut when it is settled
cdef class Held(Timer):
    """One message of one queue on its way."""

    @property
    def seq(self) -> int:
        return self.entry.seq

    @property
    def deliveries(self) -> int:
        """How often it was handed out, this time included."""
        return self.entry.deliveries

    @property
    def priority(self) -> int:
        return self.entry.priority

    @property
    def enqueued_ms(self) -> int:
        return self.entry.enqueued_ms

    @property
    def expiry_ms(self) -> int:
        """When it expires; 0 for never."""
        return self.entry.expiry_ms

    @property
    def size(self) -> int:
        """Bytes of its record."""
        return self.entry.place.size

    @property
    def message(self) -> Message:
        """The message, while it is leased."""
        return self.content

    cdef int fire(self, uint64_t now_ms) except -1:
        return self.queue.due(self, now_ms)


cdef Held new_held(Holder queue, Entry* entry, uint64_t ready_ms, uint64_t group):
    cdef Held held = Held.__new__(Held)
    held.queue = queue
    held.entry = entry[0]
    held.ready_ms = ready_ms
    held.group = group
    held.tie = entry.seq
    return held
