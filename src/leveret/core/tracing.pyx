"""Which messages are traced, and who is told of their lives.

A message is traced if its publisher says so in the header `traceparent` (W3C Trace Context), or if it says nothing and
its turn has come: then it gets such a header here. It is marked, so that the headers of others are not looked at again.

    00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
    |  |                                |                flags, hexadecimal: 1 is sampled
    |  trace                            span of the publisher
    version: what is longer than this has a higher one, and begins in the same way

Nothing that goes wrong here concerns the message.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leveret.core.message cimport TRACED
from leveret.core.ports cimport Journal
from leveret.core.properties cimport find_header, make_content

from leveret.core.properties import decode_header, encode_header

cdef enum:
    CONTEXT_BYTES = 55
    CONTEXT_BYTES_MAX = 512     # a higher version may be longer; nothing that is sent is as long as this
    VERSION_END = 2
    TRACE_END = 35
    SPAN_END = 52
    UNSAMPLED = 0
    SAMPLED = 1
    UNSAID = 2

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
cdef bytes NAME = b"traceparent"


cdef class Tracer:
    """Chooses messages; who wants to know about them inherits from it, as leveret.observability.tracing.BrokerTracer."""

    cdef bint chooses(self, Content* content, uint64_t now_ms) noexcept:
        """Whether a message that is being published is to be traced."""
        cdef uint64_t size = 0
        cdef const uint8_t* text
        cdef uint8_t said = UNSAID
        try:
            text = find_header(content.header, content.header_len, NAME, &size)
            if text != NULL:
                said = read_context(text, size)
            if said == UNSAMPLED or (said == UNSAID and not self.has_turn()):
                return False
        except Exception:
            self.failures += 1
            return False
        return self.has_room(now_ms)

    cdef bint has_turn(self) except -1:
        """Whether this one, of those that bring no context, gets one."""
        if self.gap == 0:
            return False
        self.gap -= 1
        if self.gap:
            return False
        self.gap = self.next_gap()
        return True

    cdef bint has_room(self, uint64_t now_ms) noexcept:
        cdef uint64_t second = now_ms // 1000
        if second != self.second:
            self.second = second
            self.count = 0
        if self.rate_max and self.count >= self.rate_max:
            self.limited += 1
            return False
        self.count += 1
        return True

    cdef object mark(self, Message message):
        """Mark a message that was chosen, and see that it has a context; gives the time, or None if that failed."""
        message.flags |= TRACED
        try:
            start_ns = self.now_ns()
            self.give_context(message)
            return start_ns
        except Exception:
            self.failures += 1      # there may be no room for one more header
            return None

    cdef int give_context(self, Message message) except -1:
        """Write a context into the headers of a message that brought none."""
        cdef uint64_t size = 0
        cdef const uint8_t* header = <const uint8_t*>PyBytes_AS_STRING(message.content)
        cdef const uint8_t* text = find_header(header, message.header_len, NAME, &size)
        if text == NULL or read_context(text, size) == UNSAID:
            properties = decode_header(message.header)
            kept = {name: value for name, value in (properties.headers or {}).items() if name != TRACESTATE}
            properties.headers = {**kept, TRACEPARENT: self.new_context()}
            body = message.body
            changed = encode_header(properties, len(body))
            message.content = make_content(changed, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))
            message.header_len = <uint32_t>len(changed)
            message.decoded = None
        return 0

    cdef void tell_published(self, Message message, list queues, object start_ns) noexcept:
        try:
            if start_ns is not None:
                self.published(message, queues, start_ns)
        except Exception:
            self.failures += 1

    cdef void tell_delivered(self, object queue, Held held, object journal) noexcept:
        try:
            self.delivered(queue, held, message_of(held, journal))
        except Exception:
            self.failures += 1

    cdef void tell_ended(self, object queue, Held held, object journal, uint8_t how, bint settled) noexcept:
        try:
            if settled:
                self.settled(queue, held, message_of(held, journal), how)
            else:
                self.returned(queue, held, message_of(held, journal), how)
        except Exception:
            self.failures += 1

    def start(self) -> None:
        """Begin to choose among messages that bring no context."""
        self.gap = self.next_gap()

    # What the heirs do

    def now_ns(self) -> int:
        """The time, in nanoseconds."""
        raise NotImplementedError

    def next_gap(self) -> int:
        """How many messages without a context there are until one of them gets one, that one included; 0: none does."""
        return 0

    def new_context(self) -> str:
        raise NotImplementedError

    def published(self, message: Message, queues: list[Queue], start_ns: int) -> None:
        """A message was put into these queues."""

    def delivered(self, queue: "Queue", held: Held, message: Message) -> None:
        """A message was handed out."""

    def settled(self, queue: "Queue", held: Held, message: Message, how: int) -> None:
        """A message is about to leave a queue for good; `how`: see Settled in ports.pxd."""

    def returned(self, queue: "Queue", held: Held, message: Message, how: int) -> None:
        """A message that was handed out is about to go back to its queue; `how`: see Returned in ports.pxd."""


cdef Message message_of(Held held, Journal journal):
    """The message, read back if it is not in memory."""
    return held.content if held.content is not None else journal.read(&held.entry)


cdef uint8_t read_context(const uint8_t* text, uint64_t size) noexcept:
    """What a traceparent says: SAMPLED, UNSAMPLED, or, when it is malformed, nothing."""
    cdef uint64_t i
    cdef bint traced = False, sent = False
    if size < CONTEXT_BYTES or size > CONTEXT_BYTES_MAX:
        return UNSAID
    for i in range(CONTEXT_BYTES):
        if i == VERSION_END or i == TRACE_END or i == SPAN_END:
            if text[i] != c"-":
                return UNSAID
        elif not is_hexadecimal(text[i]):
            return UNSAID
        elif i < TRACE_END:
            traced = traced or (i > VERSION_END and text[i] != c"0")
        elif i < SPAN_END:
            sent = sent or text[i] != c"0"
    if not traced or not sent or (text[0] == c"f" and text[1] == c"f"):
        return UNSAID
    if size > CONTEXT_BYTES and (text[CONTEXT_BYTES] != c"-" or (text[0] == c"0" and text[1] == c"0")):
        return UNSAID
    return SAMPLED if digit(text[CONTEXT_BYTES - 1]) & 1 else UNSAMPLED


cdef inline bint is_hexadecimal(uint8_t each) noexcept:
    return c"0" <= each <= c"9" or c"a" <= each <= c"f"


cdef inline uint8_t digit(uint8_t each) noexcept:
    return each - c"0" if each <= c"9" else each - c"a" + 10
