"""Takes the messages of a stream: chooses the partition of each and appends it there.

    x-partition-key         header: messages with the same one are in the same partition, in their order
    x-stream-filter-value   header: readers may ask for some values only
    x-producer, x-sequence  headers: what a producer sends again is not taken twice
    x-stream-offset         and x-stream-partition, headers of what was read from some stream: not kept

Without a key it is the routing key; straight to the stream, where that is only its name, a producer has one partition
and all others take turns. The rows of a batch have a producer without such headers (Author); they take turns by their
number, so that each is in the same partition whenever it comes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp

from leveret.core.message cimport BLOB
from leveret.core.ports cimport Content, Record, message_of, parts_of
from leveret.core.streams cimport Author, Recorder, StreamCursor
from leveret.storage.stream.blocks cimport Appender
from leveret.storage.stream.blocks cimport BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES, BlockHead, RecordHeader, record_at

from leveret.core.consumer_arguments import OFFSET, PARTITION
from leveret.core.errors import InvalidArgument, QueueNotFound
from leveret.core.exchanges.hashing import bytes_of, stable_hash
from leveret.core.message import restored
from leveret.core.properties import content as content_of
from leveret.core.properties import decode_header
from leveret.storage.stream.reader import offset_at
from leveret.storage.stream.reader import start_named

KEY = "x-partition-key"
KEY_FIELD: bytes = bytes([len(KEY)]) + KEY.encode() + b"S"
"""How a key begins in a table of AMQP: its length and its text follow."""
FILTER = "x-stream-filter-value"
PRODUCER = "x-producer"
SEQUENCE = "x-sequence"
LABEL_BYTES_MAX = 255
SEQUENCE_MAX = (1 << 63) - 1
READ = (OFFSET, PARTITION)
"""Headers that readers are given: a client that publishes what it has read does not say where it is now."""
_NAMES = tuple(name.encode() for name in (KEY, FILTER, PRODUCER, *READ))

cdef enum:
    FLAGS_AT = 12           # in a content header
    PROPERTIES_AT = 14
    HAS_TYPE = 0x80         # in the first byte of its flags: short strings before the headers
    HAS_ENCODING = 0x40
    HAS_HEADERS = 0x20      # in the first byte of its flags
    TOGETHER = 256          # rows of a batch that are peers in a partition, too
    PLACES_MAX = 10_000     # keys are chosen by clients; a full cache is cleared


cdef bytes NAMED = KEY_FIELD


cdef class Labels:
    """What the headers of a message say to a stream."""

    cdef bytes key
    cdef bytes filter_value
    cdef bytes producer
    cdef uint64_t sequence
    cdef bint read              # it comes from a stream


cdef Labels NO_LABELS = Labels()
NO_LABELS.filter_value = NO_LABELS.producer = b""


cdef Labels labels_of(Content* content):
    """Read the headers, if there are any that matter here."""
    cdef bytes header, key
    cdef Labels labels
    if content.header_len <= FLAGS_AT or not content.header[FLAGS_AT] & HAS_HEADERS:
        return NO_LABELS
    key = sole_key(content.header, content.header_len)
    if key is not None:
        labels = Labels()
        labels.key = key
        labels.filter_value = labels.producer = b""
        return labels
    header = PyBytes_FromStringAndSize(<const char*>content.header, content.header_len)
    if not any([name in header for name in _NAMES]):
        return NO_LABELS
    return read_labels(decode_header(header).headers or {})


cdef bytes sole_key(const uint8_t* header, Py_ssize_t size):
    """The partition key of a content header that has no other one: all other headers are decoded."""
    cdef Py_ssize_t at = PROPERTIES_AT, named = PyBytes_GET_SIZE(NAMED)
    cdef uint64_t text
    if header[FLAGS_AT] & HAS_TYPE and at < size:
        at += 1 + header[at]
    if header[FLAGS_AT] & HAS_ENCODING and at < size:
        at += 1 + header[at]
    if at + 4 + named + 4 > size or memcmp(header + at + 4, PyBytes_AS_STRING(NAMED), named):
        return None
    text = big_endian(header + at + 4 + named)
    if big_endian(header + at) != named + 4 + text or at + 4 + named + 4 + text > <uint64_t>size:
        return None
    return PyBytes_FromStringAndSize(<const char*>header + at + 4 + named + 4, text)


cdef inline uint64_t big_endian(const uint8_t* at) noexcept:
    return <uint64_t>at[0] << 24 | <uint64_t>at[1] << 16 | <uint64_t>at[2] << 8 | at[3]


cdef Labels read_labels(dict headers):
    """What these headers say; refuses what makes no sense."""
    cdef Labels labels = Labels()
    labels.read = any([name in headers for name in READ])
    labels.key = bytes_of(headers[KEY]) if KEY in headers else None
    labels.filter_value = label(headers, FILTER)
    labels.producer = label(headers, PRODUCER)
    if labels.producer:
        sequence = headers.get(SEQUENCE)
        if type(sequence) is bool or not isinstance(sequence, int) or not 0 <= sequence <= SEQUENCE_MAX:
            raise InvalidArgument(f"the header {SEQUENCE} is the number of a producer's record, 0 to {SEQUENCE_MAX}")
        labels.sequence = sequence
    return labels


def check_labels(headers: dict[str, Any]) -> None:
    """Refuse headers that no stream takes, before any record of a batch is appended."""
    read_labels(headers)


def label(dict headers, str name) -> bytes:
    """A short text from a header; empty when it is not there."""
    value = headers.get(name, "")
    found = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    if not isinstance(found, bytes) or len(found) > LABEL_BYTES_MAX:
        raise InvalidArgument(f"the header {name} is a text of up to {LABEL_BYTES_MAX} bytes")
    return found


cdef class StreamRecorder(Recorder):
    """The partitions of one stream, as its queue in the core knows them."""

    cdef readonly object queue  # type: leveret.core.queue.Queue
    cdef readonly list logs  # type: list[PartitionLog]  # of each partition
    cdef public bint dirty              # something was appended since the last commit
    cdef public bint closed
    cdef object note                    # tells the owner that it is dirty
    cdef Author author                  # of all streams of a broker
    cdef object fetch                   # the body of a pointer into the blob store
    cdef dict places                    # key -> partition
    cdef uint32_t turn

    def __init__(
        self, queue: leveret.core.queue.Queue, logs: list[PartitionLog], note: Callable[[StreamRecorder], None],
        fetch: Callable[[bytes], bytes], Author author not None,
    ) -> None:
        self.queue = queue
        self.logs = logs
        self.note = note
        self.fetch = fetch
        self.author = author
        self.places = {}

    cdef int record(self, Content* content, uint64_t now_ms) except -1:
        cdef Labels labels
        cdef Appender log
        cdef bytes producer
        cdef uint64_t sequence
        if self.closed:
            raise QueueNotFound(f"stream '{self.queue.name}' was deleted: declare it again")
        labels = labels_of(content)
        if content.flags & BLOB or labels.read:
            return self.record_changed(content, now_ms)
        self.partition = self.place(content, labels) if len(self.logs) > 1 else 0
        log = <Appender>self.logs[self.partition]
        producer, sequence = labels.producer, labels.sequence
        if not producer:
            producer, sequence = self.author.producer, self.author.sequence
        self.repeated = not log.take(content, now_ms, labels.filter_value, producer, sequence)
        self.offset = log.next_offset - 1
        if not self.dirty:
            self.dirty = True
            self.note(self)
        return 0

    cdef int record_changed(self, Content* content, uint64_t now_ms) except -1:
        """Append it with its body, which was put away before anybody knew of the stream, and without a foreign offset."""
        cdef Content whole
        message = message_of(content)
        properties = message.properties
        if properties.headers:
            properties.headers = {name: value for name, value in properties.headers.items() if name not in READ}
        body = self.fetch(message.body) if content.flags & BLOB else message.body
        wire, header_len = content_of(properties, body)
        message = restored(message.route, wire, header_len, enqueued_ms=content.enqueued_ms)
        parts_of(message, &whole)
        whole.flags &= ~BLOB
        return self.record(&whole, now_ms)

    cdef uint32_t place(self, Content* content, Labels labels) except? 0xFFFFFFFF:
        cdef bytes key = labels.key
        cdef uint32_t exchange_len = content.route[0]
        if key is None and exchange_len:
            key = PyBytes_FromStringAndSize(
                <const char*>content.route + 2 + exchange_len, content.route_len - 2 - exchange_len
            )
        if key is None and labels.producer:
            key = labels.producer
        if key is None and self.author.producer:
            return <uint32_t>(self.author.sequence // TOGETHER % <uint64_t>len(self.logs))
        if key is None:
            self.turn = (self.turn + 1) % <uint32_t>len(self.logs)
            return self.turn
        found = self.places.get(key)
        if found is None:
            if len(self.places) >= PLACES_MAX:
                self.places.clear()
            found = self.places[key] = stable_hash(key) % len(self.logs)
        return found

    @property
    def length(self) -> int:
        return sum([log.committed - log.first_offset for log in self.logs])

    @property
    def size_bytes(self) -> int:
        return sum([log.size_bytes for log in self.logs])

    @property
    def partitions(self) -> int:
        return len(self.logs)

    def figures(self) -> list[dict[str, int]]:
        return [
            {
                "partition": number,
                "first_offset": log.first_offset,
                "committed_offset": log.committed - 1,
                "messages": log.committed - log.first_offset,
                "size_bytes": log.size_bytes,
                "segments": len(log.segments),
            }
            for number, log in enumerate(self.logs)
        ]

    @property
    def behind(self) -> bool:
        """Whether publishers should wait for the disk."""
        return any([log.behind for log in self.logs])

    # What consumer groups ask (leveret.core.consumer_groups)

    def earliest(self, partition: int) -> int:
        return self.logs[partition].first_offset

    def latest(self, partition: int) -> int:
        return self.logs[partition].committed

    def at(self, partition: int, timestamp_ms: int) -> int:
        return offset_at(self.logs[partition], timestamp_ms)

    def cursor(self, partition, start, now_ms, wanted=None, match_unfiltered=False) -> LogCursor:
        log = self.logs[partition]
        start = start_named(start)
        least = start.value if start.kind == "offset" else 0
        reader = log.reader(log.find(start, now_ms), wanted, match_unfiltered)
        return LogCursor(partition, reader, least, wanted, match_unfiltered)


cdef class LogCursor(StreamCursor):
    """A place in one partition for those who copy records from where they lie: no object is made for any of them.

    It goes through the blocks that a reader gives, record by record, and holds one piece of the file at most.
    """

    cdef object reader          # leveret.storage.stream.reader.PartitionReader
    cdef uint64_t least         # what has a smaller offset was not asked for
    cdef object wanted          # filter values, or None
    cdef bint match_unfiltered
    cdef object job             # what fetches the next piece from a slow disk
    cdef bint away              # it is being fetched
    cdef list blocks            # of the piece that was read last
    cdef Py_ssize_t next_block
    cdef bytes data             # keeps the block alive
    cdef BlockHead head
    cdef const uint8_t* at
    cdef const uint8_t* end
    cdef uint64_t block_end     # the offset after the last record of the block

    def __init__(
        self, uint32_t partition, reader, uint64_t least=0, wanted=None, bint match_unfiltered=False
    ) -> None:
        """Go on from where a reader is; leave out what comes before an offset that is yet to come."""
        self.partition = partition
        self.reader = reader
        self.least = least
        self.wanted = None if wanted is None else frozenset(wanted)
        self.match_unfiltered = match_unfiltered
        self.offset = reader.offset
        self.blocks = []

    cdef bint find(self, Record* found) except -1:
        cdef const RecordHeader* header
        cdef const uint8_t* part
        cdef uint64_t fixed
        while self.offset < self.block_end or self.read_on():
            header = record_at(self.at, self.end, &fixed)
            if header == NULL:
                raise self.reader.damage(self.head)
            part = self.at + RECORD_HEADER_BYTES
            if self.wanted is None or self.matches(part + header.route_len, header.filter_len):
                found.route = part
                found.route_len = header.route_len
                found.content = self.at + fixed
                found.content_len = header.size - fixed
                found.header_len = header.header_len
                return True
            self.passed()
        return False

    cdef int passed(self) except -1:
        self.at += (<const RecordHeader*>self.at).size
        self.offset += 1
        return 0

    cdef bint matches(self, const uint8_t* value, uint32_t size) except -1:
        """Whether a filter value is one of those that are wanted."""
        if size == 0:
            return self.match_unfiltered
        return PyBytes_FromStringAndSize(<const char*>value, size) in self.wanted

    cdef bint read_on(self) except -1:
        """Go to the next block that may have something; False at the end of the stream."""
        cdef uint64_t start = max(self.least, max(self.offset, self.block_end))
        while True:
            while self.next_block >= len(self.blocks):
                if self.reader.at_end:
                    self.offset = max(start, <uint64_t>self.reader.offset)
                    self.block_end = self.offset
                    self.data = None
                    self.blocks = []
                    self.next_block = 0
                    return False
                if self.away or self.is_missing():
                    return False
                self.blocks = self.reader.blocks()
                self.next_block = 0
            self.enter_block(start)
            if self.offset < self.block_end:
                return True

    cdef bint is_missing(self) except -1:
        """Whether the next piece has to be fetched: a thread that holds the lock does not wait for a disk."""
        self.job = self.reader.missing()
        self.away = self.job is not None
        return self.away

    def missing(self) -> Callable[[], None] | None:
        job, self.job = self.job, None
        return job

    def fetched(self) -> None:
        self.away = False

    cdef int enter_block(self, uint64_t start) except -1:
        """Go to the first record of the next block that has this offset or a later one; or to its end."""
        self.data, self.head = self.blocks[self.next_block]
        self.blocks[self.next_block] = None
        self.next_block += 1
        self.at = <const uint8_t*>PyBytes_AS_STRING(self.data) + self.head.start + BLOCK_HEADER_BYTES
        self.end = <const uint8_t*>PyBytes_AS_STRING(self.data) + self.head.end
        self.offset = self.head.first
        self.block_end = self.head.first + self.head.count
        while self.offset < start and self.end - self.at >= RECORD_HEADER_BYTES:
            self.passed()
        return 0

    def close(self) -> None:
        self.reader.close()
        self.data = None
        self.blocks = []
        self.next_block = 0
        self.offset = self.block_end = 0
