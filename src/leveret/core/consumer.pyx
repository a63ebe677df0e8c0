"""A consumer: a queue pushes messages to it, as many at a time as it can take."""


cdef class Consumer:
    """An edge subclasses this and says in `deliver` how a message reaches its client."""

    def __init__(
        self, str tag, *, uint32_t prefetch=0, int64_t priority=0, bint exclusive=False, bint no_ack=False,
        str name=None,
    ) -> None:
        self.tag = tag
        self.name = tag if name is None else name
        self.opens = self.timed = True
        self.prefetch = prefetch
        self.priority = priority
        self.exclusive = exclusive
        self.no_ack = no_ack

    cdef bint can_take(self) noexcept:
        return not self.blocked and (self.no_ack or self.prefetch == 0 or self.unacked < self.prefetch)

    cpdef bint ready_for(self, Held held) except -1:
        """Whether a message whose body is in the blob store can be handed over now.

        If not, the consumer gets nothing more until it is unblocked.
        """
        return True

    cpdef deliver(self, Held held):
        raise NotImplementedError("a consumer says how it delivers")

    cpdef int pull(self) except -1:
        """Read on in a stream, as far as possible now; give the number of records."""
        raise NotImplementedError("a consumer of streams says how it reads")

    cpdef cancelled(self):
        """The queue went away."""
