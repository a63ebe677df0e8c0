"""The two sides of the line between the broker and its journal.

`Journal` is what the core asks of a journal; this class itself is the in-memory one: every message
stays in `bodies`. `JournaledState` is what a journal asks of the core when it recovers, compacts or takes a checkpoint.

The methods with C signatures are the hot ones; they are in ports.pxd.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from leveret.core.message cimport new_message

from leveret.core.errors import MessageNotFound

# A queue's index keeps sizes in 24 bits; durable bodies near it are in the blob store.
RECORD_SIZE_MAX = 0xFFFFFF


cdef class Journal:
    """Keeps messages in memory only; the base of every other journal."""

    def __cinit__(self):
        self.bodies = {}

    cdef int published(self, Content* content, Message message, list queues, Place* place) except -1:
        """Append what was accepted by these queue ids, and say where its record lies; None: there is no object yet."""
        if message is None:
            message = message_of(content)
        message.references = <uint32_t>len(queues)
        self.bodies[message.seq] = message
        place.segment = place.offset = 0
        place.size = <uint32_t>min(len(message.content), RECORD_SIZE_MAX)
        return 0

    cdef int relocated(self, Message message, list queues, Place* place) except -1:
        """Append a live record again so that its old segment can go."""
        raise AssertionError("nothing in memory needs to move")

    cdef int delivered(self, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t consumer) except -1:
        """Note a delivery and its count; no caller waits for it to be durable."""
        return 0

    cdef int returned(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint64_t due_ms, uint32_t held_ms,
        uint32_t consumer
    ) except -1:
        """Note that a lease ended without settling and when the message may appear again."""
        return 0

    cdef int settled(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1:
        """Note that a message has left a queue for good."""
        return self.uncache(entry.seq)

    cdef int noted(
        self, uint8_t kind, uint8_t how, uint32_t queue, uint64_t seq, uint64_t at_ms, uint32_t value, uint32_t consumer,
        uint16_t deliveries=0
    ) except -1:
        """Note for history what recovery does not need; `value` is the bytes of a message, or how long it was held."""
        return 0

    cdef int uncache(self, uint64_t seq) except -1:
        """Drop a cached message when no queue has it any more."""
        cdef object message = self.bodies.get(seq)
        if message is not None:
            (<Message>message).references -= 1
            if (<Message>message).references == 0:
                del self.bodies[seq]
        return 0

    cdef int locate(self, Entry* entry, Record* found) except -1:
        """Find the bytes of a message, to be copied at once."""
        cdef Message message = self.read(entry)
        found.route = <const uint8_t*><const char*>message.route
        found.route_len = <uint32_t>len(message.route)
        found.content = <const uint8_t*><const char*>message.content
        found.content_len = len(message.content)
        found.header_len = message.header_len
        return 0

    cdef Message read(self, Entry* entry):
        """The message of an entry, from memory or read back."""
        if entry.seq not in self.bodies:
            raise MessageNotFound(f"message {entry.seq} was only in memory and has left")
        return <Message>self.bodies[entry.seq]

    def purged(self, queue: int, keep: list[int], places: dict[int, int], seqs: list[int], at_ms: int) -> None:
        """Note that a queue was emptied but for the messages `keep`; `places` counts what left each segment,
        `seqs` are the messages that left."""
        for seq in seqs:
            self.uncache(seq)

    def defined(self, what: int, payload: bytes) -> int:
        """Append a definition (see records.pyx for `what`); give the segment that will hold it."""
        return 0

    def started(self, seq: int, at_ms: int) -> None:
        """Note for history that the broker was opened: messages in memory up to this number are gone."""

    def named(self, what: int, payload: bytes) -> int:
        """Note for history a definition that does not outlive the broker; give the segment that will hold it."""
        return 0

    def deduplicated(self, queue: int, digest: bytes, seq: int, at_ms: int) -> int:
        """Append a de-duplication key (16 bytes); give the segment that will hold it."""
        return 0

    def begin_segment(self) -> bool:
        """Close the segment that is being written, so that it can be archived; False when nothing is in it."""
        return False


cdef void parts_of(Message message, Content* content) noexcept:
    """Where the parts of a message lie."""
    content.route = <const uint8_t*>PyBytes_AS_STRING(message.route)
    content.route_len = <uint32_t>PyBytes_GET_SIZE(message.route)
    content.header = <const uint8_t*>PyBytes_AS_STRING(message.content)
    content.header_len = message.header_len
    content.body = content.header + message.header_len
    content.body_len = PyBytes_GET_SIZE(message.content) - message.header_len
    content.seq = message.seq
    content.enqueued_ms = message.enqueued_ms
    content.expiry_ms = message.expiry_ms
    content.due_ms = message.due_ms
    content.group = message.group
    content.priority = message.priority
    content.flags = message.flags


cdef Message message_of(Content* content):
    """A message that has its parts for itself."""
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, content.header_len + content.body_len)
    cdef Message message
    memcpy(PyBytes_AS_STRING(whole), content.header, content.header_len)
    memcpy(PyBytes_AS_STRING(whole) + content.header_len, content.body, content.body_len)
    message = new_message(
        PyBytes_FromStringAndSize(<const char*>content.route, content.route_len), whole, content.header_len,
        content.priority, content.flags, content.expiry_ms, content.due_ms, content.group,
    )
    message.seq = content.seq
    message.enqueued_ms = content.enqueued_ms
    return message


cdef class JournaledState:
    """What a journal reads records back into, and compacts. This base keeps nothing; Restorer is that of a broker."""

    cdef int replay_publish(
        self, uint32_t queue, Entry* entry, uint64_t due_ms, uint64_t group, bint moved
    ) except -1:
        """A message entered a queue (or, moved, was copied forward to a new place)."""
        return 0

    cdef int replay_settle(self, uint32_t queue, uint64_t seq, uint32_t count) except -1:
        """`count` messages numbered from `seq` left a queue; absent ones are not an error."""
        return 0

    cdef int replay_deliver(self, uint32_t queue, uint64_t seq, uint32_t count, uint32_t deliveries) except -1:
        """`count` messages numbered from `seq` have been delivered so often."""
        return 0

    cdef int replay_numbers(self, uint32_t queue, uint64_t seq) except -1:
        """These numbers were given, if to nothing that has outlived the broker."""
        return 0

    cdef int replay_return(self, uint32_t queue, uint64_t seq, uint32_t deliveries, uint64_t due_ms) except -1:
        """A message went back to its queue, to appear at `due_ms` (0: at once)."""
        return 0

    def replay_purge(self, queue: int, before: int, keep: list[int]) -> None:
        """Messages of a queue numbered below `before` left it, but for `keep`."""

    def replay_definition(self, what: int, payload: bytes, segment: int) -> None:
        """A definition was made, changed or removed."""

    def replay_dedup(self, queue: int, digest: bytes, seq: int, at_ms: int, segment: int) -> None:
        """A de-duplication key was taken at `at_ms`."""

    def recovered(self, now_ms: int) -> dict[int, int]:
        """Replay is over: settle into shape; give the number of live records by segment."""
        return {}

    def snapshot(self) -> bytes:
        """The whole state, for a checkpoint."""
        return b""

    def restore(self, snapshot: memoryview) -> None:
        """The reverse of snapshot, on an empty state."""

    def relocate(self, segment: int, budget_bytes: int) -> bool:
        """Append again what still lives in a segment, about `budget_bytes` of it; True when nothing is left."""
        return True
