"""AMQP 0-9-1 field tables, read as RabbitMQ reads them.

    table = | u32 bytes | field ... |        field = | u8 length | key | type | value |
    array = | u32 bytes | type | value | ... |

    type  value                      Python            type  value               Python
    t     u8, 0 is false             bool              S     u32 length, UTF-8   str (LongString if it is not)
    b B   i8 u8                      int               x     u32 length, bytes   bytes
    s u   i16 u16                    int               T     u64 seconds         datetime in UTC
    I i   i32 u32                    int               A     array               list
    l L   i64, both signed           int (Long)        F     table               dict
    f d   float, double              float             V     nothing             None
    D     u8 scale, u32 unscaled     Decimal

Of two fields with one key the first counts. Whatever was decoded can be encoded again and means the same: that is
what Long, Timestamp and LongString are for.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memset

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from leveret.core.errors import InvalidArgument

cdef enum:
    PREFIXED = 0xFE     # the value begins with its length
    UNKNOWN = 0xFF

cdef uint8_t[256] WIDTHS
memset(WIDTHS, UNKNOWN, sizeof(WIDTHS))
for kinds, width in ((b"V", 0), (b"tbB", 1), (b"su", 2), (b"Iif", 4), (b"D", 5), (b"lLdT", 8), (b"SxAF", PREFIXED)):
    for kind in kinds:
        WIDTHS[kind] = width

cdef uint64_t SECONDS_MAX = 253_402_300_799     # the last that a datetime can say
cdef object EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
cdef object SECOND = timedelta(seconds=1)


class MalformedTable(ValueError):
    """Bytes that are no table or no content header, or that go over a limit; `offset` says where."""

    offset: int

    def __init__(self, what: str, offset: int) -> None:
        super().__init__(f"{what} at byte {offset}")
        self.offset = offset


class Long(int):
    """An integer that travels in 64 bits even if 32 would do: some clients insist on the type."""


class Timestamp(int):
    """Seconds since 1970 that are beyond the years of a datetime (often milliseconds, sent by mistake)."""


class LongString(bytes):
    """A long string that is not UTF-8."""


def decode_table(bytes data not None, offset: int = 0) -> tuple[dict[str, Any], int]:
    """The table at an offset and the offset after it; raises MalformedTable and nothing else."""
    if not 0 <= offset <= len(data):
        raise MalformedTable("no table", offset)
    cdef Reader reader = Reader(<const uint8_t*>PyBytes_AS_STRING(data), offset, len(data), TABLE_FIELDS_MAX, 0)
    table = take_table(&reader, TABLE_BYTES_MAX)
    return table, reader.position


def encode_table(table: dict[str, Any]) -> bytes:
    """The bytes of a table; raises InvalidArgument for what has no AMQP type or goes over a limit."""
    cdef Writer writer = Writer(NULL, 0, 0, 0, STORED_FIELDS_MAX, 0)
    try:
        put_table(&writer, table)
        return PyBytes_FromStringAndSize(<char*>writer.data, writer.size)
    finally:
        free(writer.data)


# Reading; the smallest steps are in tables.pxd.

cdef int malformed(Reader* reader, str what) except -1:
    """Refuse what is at the reader's place."""
    raise MalformedTable(what, reader.position)


cdef int overrun(Reader* reader, uint64_t size) except -1:
    """Refuse a size that goes beyond the end."""
    return malformed(reader, f"{size} bytes announced, {reader.end - reader.position} left")


cdef str take_short_string(Reader* reader):
    """The next short string; bytes that are not UTF-8 become surrogates, so that they can be written again."""
    cdef uint64_t size = take(reader, 1)
    skip(reader, size)
    return PyUnicode_DecodeUTF8(<char*>reader.data + reader.position - size, size, "surrogateescape")


cdef inline int enter(Reader* reader, uint64_t size, uint64_t* outer_end) except -1:
    """Go into a table or array of so many bytes, known to be there."""
    if reader.depth == TABLE_DEPTH_MAX:
        return malformed(reader, "tables and arrays nested too deep")
    reader.depth += 1
    outer_end[0] = reader.end
    reader.end = reader.position + size
    return 0


cdef inline void leave(Reader* reader, uint64_t outer_end) noexcept:
    reader.depth -= 1
    reader.end = outer_end


cdef inline int take_kind(Reader* reader, uint8_t* kind, uint64_t* size) except -1:
    """The type of the next value and the number of its bytes, which are there."""
    if reader.fields_left == 0:
        return malformed(reader, "too many fields")
    reader.fields_left -= 1
    kind[0] = <uint8_t>take(reader, 1)
    size[0] = WIDTHS[kind[0]]
    if size[0] == PREFIXED:
        size[0] = take(reader, 4)
    elif size[0] == UNKNOWN:
        return malformed(reader, "unknown field type")
    return require(reader, size[0])


cdef uint64_t take_table_size(Reader* reader, uint64_t bytes_max) except? 0xFFFFFFFFFFFFFFFF:
    cdef uint64_t size = take(reader, 4)
    if size > bytes_max:
        malformed(reader, f"table of {size} bytes, the limit is {bytes_max}")
    require(reader, size)
    return size


cdef bint skip_headers(Reader* reader, uint64_t bytes_max) except -1:
    """Step over a table, making sure that take_table would succeed; builds no objects.

    Whether one of its keys is special: CC, BCC, or one that begins with x-.
    """
    cdef uint8_t kind
    cdef uint64_t outer_end, size
    cdef bint special = False
    enter(reader, take_table_size(reader, bytes_max), &outer_end)
    while reader.position < reader.end:
        size = take(reader, 1)
        skip(reader, size)
        special = special or is_special(reader.data + reader.position - size, size)
        take_kind(reader, &kind, &size)
        if kind == c"F" or kind == c"A":
            skip_nested(reader, size, kind == c"F")
        else:
            reader.position += size
    leave(reader, outer_end)
    return special


cdef inline bint is_special(const uint8_t* key, uint64_t size) noexcept:
    if size < 2:
        return False
    if key[0] == c"x":
        return key[1] == c"-"
    if size == 3:
        return key[0] == c"B" and key[1] == c"C" and key[2] == c"C"
    return size == 2 and key[0] == c"C" and key[1] == c"C"


cdef const uint8_t* find_text(Reader* reader, bytes key, uint64_t* size) except? NULL:
    """The text or bytes that a key has in the table at the reader's place; NULL when there is nothing of that kind."""
    cdef uint64_t outer_end, length
    cdef const uint8_t* at
    cdef uint8_t kind
    enter(reader, take_table_size(reader, STORED_BYTES_MAX), &outer_end)
    while reader.position < reader.end:
        length = take(reader, 1)
        at = reader.data + reader.position
        skip(reader, length)
        take_kind(reader, &kind, size)
        if length == <uint64_t>PyBytes_GET_SIZE(key) and memcmp(at, PyBytes_AS_STRING(key), length) == 0:
            return reader.data + reader.position if kind == c"S" or kind == c"x" else NULL
        reader.position += size[0]
    return NULL


cdef int skip_nested(Reader* reader, uint64_t size, bint keyed) except -1:
    cdef uint8_t kind
    cdef uint64_t outer_end
    enter(reader, size, &outer_end)
    while reader.position < reader.end:
        if keyed:
            skip(reader, take(reader, 1))
        take_kind(reader, &kind, &size)
        if kind == c"F" or kind == c"A":
            skip_nested(reader, size, kind == c"F")
        else:
            reader.position += size
    leave(reader, outer_end)
    return 0


cdef dict take_table(Reader* reader, uint64_t bytes_max):
    return take_fields(reader, take_table_size(reader, bytes_max))


cdef dict take_fields(Reader* reader, uint64_t size):
    cdef uint64_t outer_end
    cdef dict table = {}
    enter(reader, size, &outer_end)
    while reader.position < reader.end:
        key = take_short_string(reader)
        table.setdefault(key, take_value(reader))
    leave(reader, outer_end)
    return table


cdef list take_elements(Reader* reader, uint64_t size):
    cdef uint64_t outer_end
    cdef list array = []
    enter(reader, size, &outer_end)
    while reader.position < reader.end:
        array.append(take_value(reader))
    leave(reader, outer_end)
    return array


cdef object take_value(Reader* reader):
    cdef uint8_t kind
    cdef uint64_t size
    take_kind(reader, &kind, &size)
    if kind == c"F":
        return take_fields(reader, size)
    if kind == c"A":
        return take_elements(reader, size)
    cdef const uint8_t* data = reader.data + reader.position
    reader.position += size
    if kind == c"S":
        return long_string(<const char*>data, size)
    if kind == c"x":
        return PyBytes_FromStringAndSize(<const char*>data, size)
    return scalar(kind, data, big_endian(data, <uint32_t>size))


cdef object scalar(uint8_t kind, const uint8_t* data, uint64_t bits):
    """A value of fixed width; `bits` are its bytes as one number."""
    if kind == c"I":
        return <int32_t>bits
    if kind == c"l" or kind == c"L":
        return long_integer(<int64_t>bits)
    if kind == c"t":
        return bits != 0
    if kind == c"d":
        return double(bits)
    if kind == c"T":
        return datetime.fromtimestamp(bits, UTC) if bits <= SECONDS_MAX else Timestamp(bits)
    if kind == c"V":
        return None
    if kind == c"b":
        return <int8_t>bits
    if kind == c"s":
        return <int16_t>bits
    if kind == c"f":
        return single(<uint32_t>bits)
    if kind == c"D":
        return Decimal(f"{bits & 0xFFFFFFFF}E-{data[0]}")
    return bits     # B, u, i


cdef object long_string(const char* data, uint64_t size):
    try:
        return PyUnicode_DecodeUTF8(data, size, NULL)
    except UnicodeDecodeError:
        return LongString(PyBytes_FromStringAndSize(data, size))


cdef object long_integer(int64_t value):
    # Only a small number needs to remember its width.
    return Long(value) if <int32_t>value == value else value


cdef double double(uint64_t bits) noexcept:
    cdef double value
    memcpy(&value, &bits, sizeof(value))
    return value


cdef double single(uint32_t bits) noexcept:
    cdef float value
    memcpy(&value, &bits, sizeof(value))
    return value


# Writing: the reverse, into one growing buffer.

cdef uint8_t* room(Writer* writer, uint64_t size) except NULL:
    """Where the next `size` bytes go."""
    if size > writer.size_max - writer.size:
        raise InvalidArgument(f"a table has at most {STORED_BYTES_MAX} bytes: put what is large into the body")
    cdef uint64_t needed = writer.size + size
    cdef void* grown
    if needed > writer.capacity:
        grown = realloc(writer.data, 2 * needed + 128)
        if grown == NULL:
            raise MemoryError
        writer.data = <uint8_t*>grown
        writer.capacity = 2 * needed + 128
    writer.size = needed
    return writer.data + needed - size


cdef inline void big_endian_to(uint8_t* data, uint64_t value, uint32_t width) noexcept nogil:
    cdef uint32_t i
    for i in range(width):
        data[i] = <uint8_t>(value >> (8 * (width - 1 - i)))


cdef int put(Writer* writer, uint64_t value, uint32_t width) except -1:
    big_endian_to(room(writer, width), value, width)
    return 0


cdef int put_kind(Writer* writer, uint8_t kind, uint64_t value, uint32_t width) except -1:
    cdef uint8_t* data = room(writer, 1 + width)
    data[0] = kind
    big_endian_to(data + 1, value, width)
    return 0


cdef int put_prefixed(Writer* writer, uint8_t kind, bytes value) except -1:
    put_kind(writer, kind, <uint64_t>PyBytes_GET_SIZE(value), 4)
    memcpy(room(writer, PyBytes_GET_SIZE(value)), PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return 0


cdef bytes utf8(str text):
    # Names that came off the wire as other bytes than UTF-8 hold surrogates: they go out as those bytes.
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{text!r} cannot be written as UTF-8: send it as bytes") from error


cdef int put_short_string(Writer* writer, str text, str what) except -1:
    """Append a string of at most 255 bytes; `what` names it in the error."""
    cdef bytes encoded = utf8(text)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(encoded)
    if size > KEY_BYTES_MAX:
        raise InvalidArgument(f"{what} has {size} bytes, the limit is {KEY_BYTES_MAX}: shorten it")
    put(writer, <uint64_t>size, 1)
    memcpy(room(writer, size), PyBytes_AS_STRING(encoded), size)
    return 0


cdef int put_table(Writer* writer, dict table) except -1:
    cdef uint64_t size_max = writer.size_max
    writer.size_max = writer.size + 4 + STORED_BYTES_MAX
    put_nested(writer, table)
    writer.size_max = size_max
    return 0


cdef int put_nested(Writer* writer, object items) except -1:
    """Append the length and the contents of a table or array."""
    if writer.depth == TABLE_DEPTH_MAX:
        raise InvalidArgument(f"tables and arrays are nested at most {TABLE_DEPTH_MAX} deep: flatten the headers")
    if <uint64_t>len(items) > writer.fields_left:
        raise InvalidArgument(f"a table has at most {STORED_FIELDS_MAX} fields: put what is large into the body")
    writer.depth += 1
    writer.fields_left -= <uint32_t>len(items)
    cdef uint64_t start = writer.size
    put(writer, 0, 4)
    if isinstance(items, dict):
        for key, value in (<dict>items).items():
            if not isinstance(key, str):
                raise InvalidArgument(f"a header name is a string, not {key!r}")
            put_short_string(writer, key, "a header name")
            put_value(writer, value)
    else:
        for value in items:
            put_value(writer, value)
    big_endian_to(writer.data + start, writer.size - start - 4, 4)
    writer.depth -= 1
    return 0


cdef int put_value(Writer* writer, object value) except -1:
    cdef double number
    cdef uint64_t bits
    if isinstance(value, str):
        return put_prefixed(writer, c"S", utf8(value))
    if isinstance(value, bool):
        return put_kind(writer, c"t", value is True, 1)
    if isinstance(value, int):
        return put_integer(writer, value)
    if value is None:
        return put_kind(writer, c"V", 0, 0)
    if isinstance(value, float):
        number = value
        memcpy(&bits, &number, sizeof(bits))
        return put_kind(writer, c"d", bits, 8)
    if isinstance(value, dict):
        put_kind(writer, c"F", 0, 0)
        return put_nested(writer, value)
    if isinstance(value, (list, tuple)):
        put_kind(writer, c"A", 0, 0)
        return put_nested(writer, value)
    if isinstance(value, LongString):
        return put_prefixed(writer, c"S", bytes(value))
    if isinstance(value, (bytes, bytearray, memoryview)):
        return put_prefixed(writer, c"x", bytes(value))
    if isinstance(value, datetime):
        return put_kind(writer, c"T", seconds_of(value), 8)
    if isinstance(value, Decimal):
        return put_decimal(writer, value)
    raise InvalidArgument(f"AMQP has no type for {type(value).__name__}: send it in the body or as a string")


cdef int put_integer(Writer* writer, object value) except -1:
    """Append an integer in 32 bits if they do."""
    cdef int64_t number
    try:
        if isinstance(value, Timestamp):
            return put_kind(writer, c"T", value, 8)
        number = value
    except OverflowError as error:
        raise InvalidArgument("an integer header has at most 64 bits: send a larger one as a string") from error
    if <int32_t>number == number and not isinstance(value, Long):
        return put_kind(writer, c"I", <uint64_t>number, 4)
    return put_kind(writer, c"l", <uint64_t>number, 8)


cdef uint64_t seconds_of(object time) except? 0xFFFFFFFFFFFFFFFF:
    """A time as whole seconds since 1970."""
    if time.tzinfo is None or time < EPOCH:
        raise InvalidArgument(f"{time} is no AMQP timestamp: give a datetime with a time zone, from 1970 on")
    return (time - EPOCH) // SECOND


cdef int put_decimal(Writer* writer, object value) except -1:
    """Append a decimal: unsigned, because that is how RabbitMQ reads it."""
    negative, digits, exponent = value.as_tuple()
    # The limits keep a short text such as 1E+999999 from becoming a very long number.
    if not negative and isinstance(exponent, int) and -255 <= exponent <= 10 and len(digits) <= 10:
        unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
        if unscaled <= 0xFFFFFFFF:
            put_kind(writer, c"D", max(-exponent, 0), 1)
            return put(writer, unscaled, 4)
    raise InvalidArgument("a decimal header has at most 32 bits and no sign: send any other as a string")
