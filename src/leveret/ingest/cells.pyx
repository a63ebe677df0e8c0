"""Columns of a piece where they lie: checked once as a whole, then read cell by cell without an object for each.

row_groups.py draws the format, and refuses what is found to be wrong here. Rows that differ in nothing but their bodies
and simple properties go from columns straight into a queue: their content headers are written one after the other into
the same room. What a row does not say is as all rows have it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.message cimport PERSISTENT
from leveret.core.ports cimport Content
from leveret.core.publish cimport Publisher
from leveret.core.queue cimport Queue
from leveret.core.streams cimport Author

from leveret.storage.stream.recorder import KEY_FIELD as KEY_NAMED

cdef enum:
    OFFSET_BYTES = 4
    NUMBER_BYTES = 8
    BASIC = 60              # the class of all content headers; core/properties.pyx draws them
    BODY_SIZE_AT = 4
    FLAGS_AT = 12
    PROPERTIES_AT = 14
    PROPERTY_BYTES_MAX = 256

cdef int64_t NOTHING = -<int64_t>0x7FFFFFFFFFFFFFFF - 1
cdef bytes KEY_FIELD = KEY_NAMED


cdef class Texts:
    """A text for each row; only a column whose offsets are `rising` may be read."""

    cdef bytes row_group            # whose bytes the others point to
    cdef const uint8_t* flags       # NULL: every row has a text
    cdef const uint8_t* offsets
    cdef const uint8_t* texts
    cdef Py_ssize_t rows
    cdef readonly Py_ssize_t size_bytes
    cdef readonly bint rising       # the offsets are those of texts one behind the other, from the first to the last byte
    cdef readonly uint32_t longest

    def __init__(self, bytes row_group not None, Py_ssize_t at, Py_ssize_t size, Py_ssize_t rows, bint gapped) -> None:
        """Take so many bytes of a piece; the caller knows that they have room for the offsets."""
        cdef Py_ssize_t flags_bytes = (rows + 7) // 8 if gapped else 0
        cdef Py_ssize_t head_bytes = flags_bytes + (rows + 1) * OFFSET_BYTES
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(row_group) + at
        assert at >= 0 and rows >= 0 and head_bytes <= size <= len(row_group) - at, "it was looked at before"
        self.row_group = row_group
        self.flags = data if gapped else NULL
        self.offsets = data + flags_bytes
        self.texts = data + head_bytes
        self.rows = rows
        self.size_bytes = size - head_bytes
        self.measure()

    cdef int measure(self) except -1:
        """Look at every offset before any is used."""
        cdef uint32_t last = self.offset(0), each
        cdef Py_ssize_t row
        self.rising = <uint64_t>self.offset(self.rows) - last == <uint64_t>self.size_bytes
        for row in range(1, self.rows + 1):
            each = self.offset(row)
            self.rising = self.rising and last <= each
            self.longest = max(self.longest, each - last)
            last = each
        return 0

    cdef inline uint32_t offset(self, Py_ssize_t row) noexcept:
        cdef uint32_t found
        memcpy(&found, self.offsets + row * OFFSET_BYTES, OFFSET_BYTES)
        return found

    cdef const uint8_t* find(self, Py_ssize_t row, uint32_t* size) noexcept:
        """Where the text of a row lies; NULL when it has none."""
        cdef uint32_t start = self.offset(row)
        size[0] = self.offset(row + 1) - start
        if self.flags != NULL and not self.flags[row >> 3] >> (row & 7) & 1:
            size[0] = 0
            return NULL
        return self.texts + (start - self.offset(0))

    def __getitem__(self, Py_ssize_t row) -> bytes | None:
        cdef uint32_t size
        cdef const uint8_t* text
        if not 0 <= row < self.rows:
            raise IndexError(row)
        text = self.find(row, &size)
        return None if text == NULL else PyBytes_FromStringAndSize(<const char*>text, size)

    def is_utf8(self) -> bool:
        """Whether every text is one of UTF-8, also those of rows that do not count."""
        cdef Py_ssize_t row
        cdef uint32_t at
        try:
            PyUnicode_DecodeUTF8(<const char*>self.texts, self.size_bytes, NULL)
        except UnicodeDecodeError:
            return False
        for row in range(1, self.rows):
            at = self.offset(row) - self.offset(0)
            # All of it is right, so a text is, unless it begins in the middle of a character.
            if at < self.size_bytes and self.texts[at] & 0xC0 == 0x80:
                return False
        return True


cdef class Numbers:
    """A number for each row, or nothing."""

    cdef bytes row_group
    cdef const uint8_t* numbers
    cdef Py_ssize_t rows
    cdef readonly int64_t least     # of those that are there; 0 without any
    cdef readonly int64_t most

    def __init__(self, bytes row_group not None, Py_ssize_t at, Py_ssize_t rows) -> None:
        cdef int64_t number
        cdef Py_ssize_t row
        cdef bint found = False
        assert at >= 0 and rows >= 0 and rows * NUMBER_BYTES <= len(row_group) - at, "it was looked at before"
        self.row_group = row_group
        self.numbers = <const uint8_t*>PyBytes_AS_STRING(row_group) + at
        self.rows = rows
        for row in range(rows):
            if self.find(row, &number):
                self.least = min(self.least, number) if found else number
                self.most = max(self.most, number) if found else number
                found = True

    cdef bint find(self, Py_ssize_t row, int64_t* number) noexcept:
        """The number of a row; False when it has none."""
        memcpy(number, self.numbers + row * NUMBER_BYTES, NUMBER_BYTES)
        return number[0] != NOTHING

    def __getitem__(self, Py_ssize_t row) -> int | None:
        cdef int64_t number
        if not 0 <= row < self.rows:
            raise IndexError(row)
        return number if self.find(row, &number) else None


cpdef enum Kind:
    SHORT_STRING = 0
    OCTET = 1
    LONG = 2
    DIGITS = 3              # a number that is told as a short string
    KEY = 4                 # a table with one header, the partition key


cdef class PackedField:
    """One property: which it is of the 14, how it is written, what all rows say, and the column of those that differ."""

    cdef uint16_t flag
    cdef Kind kind
    cdef bytes common
    cdef Texts texts
    cdef Numbers numbers

    def __init__(self, int place, Kind kind, bytes common not None, column: Texts | Numbers | None) -> None:
        """`common` are the bytes of the property in a content header, none if it is not there."""
        self.flag = <uint16_t>(1 << (15 - place))
        self.kind = kind
        self.common = common
        if kind == SHORT_STRING or kind == KEY:
            self.texts = column
        else:
            self.numbers = column

    cdef uint8_t* write(self, uint8_t* at, Py_ssize_t row) noexcept:
        """Write what a row has of it, and give where that ends."""
        cdef const uint8_t* text
        cdef uint32_t size
        cdef int64_t number
        if self.texts is not None:
            text = self.texts.find(row, &size)
            if text != NULL and self.kind == KEY:
                return write_key(at, text, size)
            if text != NULL:
                at[0] = <uint8_t>size
                memcpy(at + 1, text, size)
                return at + 1 + size
        elif self.numbers is not None and self.numbers.find(row, &number):
            return write_number(at, <uint64_t>number, self.kind)
        memcpy(at, PyBytes_AS_STRING(self.common), PyBytes_GET_SIZE(self.common))
        return at + PyBytes_GET_SIZE(self.common)


cdef class Packed:
    """The rows of a piece, ready to be published."""

    cdef Texts bodies
    cdef list fields
    cdef Numbers priorities, delays, ttls
    cdef uint8_t priority               # what rows have that say nothing else; times in ms, -1: none
    cdef int64_t delay_ms, ttl_ms
    cdef uint64_t group
    cdef bytearray room

    def __init__(
        self, Texts bodies not None, fields: list[PackedField], *, uint8_t priority, delay_ms: int | None,
        ttl_ms: int | None, uint64_t group, Numbers priorities=None, Numbers delays=None, Numbers ttls=None,
    ) -> None:
        """Rows with these fields, in the order in which content headers have them."""
        cdef PackedField field
        cdef Py_ssize_t size = PROPERTIES_AT
        self.bodies = bodies
        self.fields = fields
        self.priority = priority
        self.delay_ms = -1 if delay_ms is None else delay_ms
        self.ttl_ms = -1 if ttl_ms is None else ttl_ms
        self.group = group
        self.priorities, self.delays, self.ttls = priorities, delays, ttls
        for field in fields:
            size += max(PROPERTY_BYTES_MAX, len(field.common))
            size += 0 if field.texts is None else field.texts.longest
        self.room = bytearray(size)
        self.room[1] = BASIC

    @property
    def longest(self) -> int:
        """The bytes of the largest body."""
        return self.bodies.longest

    def end_of(self, Py_ssize_t first, Py_ssize_t rows_max, uint64_t bytes_max) -> int:
        """The row after some from `first` on that are not more than so many, nor longer: but one at least."""
        cdef Py_ssize_t most = min(self.bodies.rows, first + rows_max), row = first + 1
        while row < most and self.bodies.offset(row + 1) - self.bodies.offset(first) <= bytes_max:
            row += 1
        return row

    def publish(
        self, Publisher publisher not None, Queue queue not None, Author author not None, Py_ssize_t first, Py_ssize_t end
    ) -> None:
        """Put rows into a queue that takes everything as it is, or append them to a stream, which knows the number of each.

        Refuses all of them when the disk is full.
        """
        cdef bint numbered = queue.recorder is not None
        cdef Content content
        cdef list queues = [queue]
        cdef uint32_t size
        cdef Py_ssize_t row
        assert 0 <= first <= end <= self.bodies.rows, "rows of this piece"
        content.flags = PERSISTENT if queue.durable else 0
        publisher.check_room(queues, content.flags)
        content.route = <const uint8_t*>PyBytes_AS_STRING(queue.route)
        content.route_len = <uint32_t>PyBytes_GET_SIZE(queue.route)
        content.group = self.group
        for row in range(first, end):
            content.body = self.bodies.find(row, &size)
            content.body_len = size
            if content.body == NULL:
                content.body = self.bodies.texts
            self.write_header(&content, row)
            self.set_times(&content, row, publisher.engine.now_ms)
            publisher.enter(&content, None, queues)
            if numbered:
                author.sequence += 1

    cdef int write_header(self, Content* content, Py_ssize_t row) except -1:
        cdef uint8_t* header = <uint8_t*><char*>self.room
        cdef uint8_t* at = header + PROPERTIES_AT
        cdef uint8_t* start
        cdef uint16_t flags = 0
        cdef PackedField field
        for field in self.fields:
            start = at
            at = field.write(at, row)
            if at > start:
                flags |= field.flag
        big_endian(header + BODY_SIZE_AT, content.body_len, 8)
        big_endian(header + FLAGS_AT, flags, 2)
        content.header = header
        content.header_len = <uint32_t>(at - header)
        return 0

    cdef int set_times(self, Content* content, Py_ssize_t row, uint64_t now_ms) except -1:
        """Set what queues decide by."""
        cdef int64_t number
        content.priority = <uint8_t>stated(self.priorities, row, self.priority)
        number = stated(self.delays, row, self.delay_ms)
        content.due_ms = 0 if number < 0 else now_ms + <uint64_t>number
        number = stated(self.ttls, row, self.ttl_ms)
        content.expiry_ms = 0 if number < 0 else now_ms + max(<uint64_t>1, <uint64_t>number)
        return 0


cdef int64_t stated(Numbers column, Py_ssize_t row, int64_t common) noexcept:
    cdef int64_t number
    if column is not None and column.find(row, &number):
        return number
    return common


cdef uint8_t* write_key(uint8_t* at, const uint8_t* key, uint32_t size) noexcept:
    """Write a table of AMQP with a partition key alone, and give where it ends."""
    cdef Py_ssize_t named = PyBytes_GET_SIZE(KEY_FIELD)
    at = big_endian(at, named + 4 + size, 4)
    memcpy(at, PyBytes_AS_STRING(KEY_FIELD), named)
    at = big_endian(at + named, size, 4)
    memcpy(at, key, size)
    return at + size


cdef uint8_t* write_number(uint8_t* at, uint64_t number, Kind kind) noexcept:
    """Write a number in one of its ways, and give where it ends."""
    cdef int size = 1, digit
    cdef uint64_t rest = number
    if kind == OCTET:
        return big_endian(at, number, 1)
    if kind == LONG:
        return big_endian(at, number, 8)
    while rest >= 10:
        rest //= 10
        size += 1
    at[0] = <uint8_t>size
    for digit in range(size, 0, -1):
        at[digit] = <uint8_t>(c"0" + number % 10)
        number //= 10
    return at + 1 + size


cdef uint8_t* big_endian(uint8_t* at, uint64_t number, int width) noexcept:
    """Write a number as AMQP has them, and give where it ends."""
    cdef int i
    for i in range(width):
        at[i] = <uint8_t>(number >> (8 * (width - 1 - i)))
    return at + width
