"""A message: the wire bytes of its properties and body, and the few facts that queues decide by.

    content = | content header payload (class, weight, body size, flags, properties) | body |
              0                                                                header_len

Properties are decoded only when asked for: delivery is a copy of the bytes.
"""

cimport cython

from leveret.core.properties import decode_header


@cython.no_gc           # holds bytes and plain values: no cycle can pass through it
@cython.freelist(1024)
cdef class Message:
    """One published message; never changes after publish numbered it."""

    @property
    def header(self) -> bytes:
        """The AMQP content header payload."""
        return self.content[: self.header_len]

    @property
    def body(self) -> bytes:
        return self.content[self.header_len :]

    @property
    def exchange(self) -> str:
        return self.route[1 : 1 + self.route[0]].decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        return self.route[2 + self.route[0] :].decode("utf-8", "surrogateescape")

    @property
    def properties(self) -> Properties:
        """The decoded AMQP properties; decoded once."""
        if self.decoded is None:
            self.decoded = decode_header(self.header)
        return self.decoded


cdef Message new_message(
    bytes route, bytes content, uint32_t header_len, uint8_t priority, uint8_t flags,
    uint64_t expiry_ms, uint64_t due_ms, uint64_t group
):
    cdef Message message = Message.__new__(Message)
    message.route = route
    message.content = content
    message.header_len = header_len
    message.priority = priority
    message.flags = flags
    message.expiry_ms = expiry_ms
    message.due_ms = due_ms
    message.group = group
    return message


def restored(
    bytes route, bytes content, uint32_t header_len, uint8_t priority=0, uint8_t flags=PERSISTENT,
    uint64_t expiry_ms=0, uint64_t due_ms=0, uint64_t group=0, uint64_t seq=0, uint64_t enqueued_ms=0,
) -> Message:
    """Build a message whose number and time are already known."""
    cdef Message message = new_message(route, content, header_len, priority, flags, expiry_ms, due_ms, group)
    message.seq = seq
    message.enqueued_ms = enqueued_ms
    return message
