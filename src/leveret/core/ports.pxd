from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leveret.core.message cimport Message

cdef enum Settled:      # how a message left a queue
    ACKED = 0
    REJECTED = 1
    EXPIRED = 2
    MAXLEN = 3
    DELIVERY_LIMIT = 4
    PURGED = 5
    CANCELLED = 6
    MOVED = 7
    RETIRED = 8         # older than the queue's retention
    AUTO_ACKED = 9      # its consumer need not acknowledge

cdef enum Returned:     # why a leased message went back to its queue
    NACKED = 0
    TIMED_OUT = 1
    REQUEUED = 2
    DELAYED = 3         # its time to appear was changed

cdef enum Event:        # what only history needs; the numbers go on from the kinds of the journal's entries
    STARTED = 10        # the broker was opened: transient messages before a number are gone
    LOST = 11           # events were dropped
    REFUSED = 12        # a publish
    APPENDED = 13       # to a stream
    READ = 14           # from a stream
    COUNTED = 15        # one of the counters of a queue, since it was last noted
    EVENT_LAST = 15

cpdef enum:             # why no queue, or not this one, got a message
    FULL = 0
    FULL_DEAD_LETTERED = 1      # the message went to the dead-letter exchange of the full queue
    TOO_LARGE = 2
    UNROUTABLE = 3      # dropped
    RETURNED = 4        # the same, but its publisher got it back
    NO_ROOM = 5         # the disk is nearly full

cdef struct Place:      # where a record lies; segment 0: in memory only
    uint32_t segment
    uint32_t offset
    uint32_t size

cdef struct Entry:      # one message in one queue
    uint64_t seq
    uint64_t enqueued_ms
    uint64_t expiry_ms
    Place place
    uint32_t deliveries
    uint16_t overhead   # bytes of the record that are not body (saturates)
    uint8_t priority
    uint8_t flags

cdef struct Record:     # the bytes of a message where they lie: good until the journal is used again
    const uint8_t* route
    const uint8_t* content
    uint32_t route_len
    uint32_t header_len
    uint64_t content_len

cdef struct Content:    # a message on its way in, in parts that lie somewhere for as long as the call lasts
    const uint8_t* route
    const uint8_t* header
    const uint8_t* body
    uint32_t route_len
    uint32_t header_len
    uint64_t body_len
    uint64_t seq
    uint64_t enqueued_ms
    uint64_t expiry_ms
    uint64_t due_ms
    uint64_t group
    uint8_t priority
    uint8_t flags

cdef class Journal:
    cdef readonly dict bodies  # type: dict[int, Message]  # seq -> Message: what need not be read back
    cdef readonly bint full             # the disk is nearly full: publishes are refused, settling goes on
    cdef readonly bint history          # it also keeps what only history needs
    cdef int published(self, Content* content, Message message, list queues, Place* place) except -1
    cdef int relocated(self, Message message, list queues, Place* place) except -1
    cdef int delivered(self, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t consumer) except -1
    cdef int returned(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint64_t due_ms, uint32_t held_ms,
        uint32_t consumer
    ) except -1
    cdef int settled(
        self, uint32_t queue, Entry* entry, uint8_t how, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1
    cdef int noted(
        self, uint8_t kind, uint8_t how, uint32_t queue, uint64_t seq, uint64_t at_ms, uint32_t value, uint32_t consumer,
        uint16_t deliveries=*
    ) except -1
    cdef int uncache(self, uint64_t seq) except -1
    cdef int locate(self, Entry* entry, Record* found) except -1
    cdef Message read(self, Entry* entry)

cdef void parts_of(Message message, Content* content) noexcept
cdef Message message_of(Content* content)

cdef class JournaledState:
    cdef int replay_publish(
        self, uint32_t queue, Entry* entry, uint64_t due_ms, uint64_t group, bint moved
    ) except -1
    cdef int replay_settle(self, uint32_t queue, uint64_t seq, uint32_t count) except -1
    cdef int replay_deliver(self, uint32_t queue, uint64_t seq, uint32_t count, uint32_t deliveries) except -1
    cdef int replay_numbers(self, uint32_t queue, uint64_t seq) except -1
    cdef int replay_return(self, uint32_t queue, uint64_t seq, uint32_t deliveries, uint64_t due_ms) except -1
