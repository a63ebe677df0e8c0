# cython: auto_pickle=True
"""The 14 properties of an AMQP message and the content header that carries them.

    | u16 class = 60 | u16 weight = 0 | u64 body size | u16 flags | the properties whose flag is set, in order |
    0                2                4               12          14

The highest flag is the first property. The lowest would announce a second word of flags: nothing defines one.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint16_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from leveret.core.tables cimport (
    STORED_BYTES_MAX, STORED_FIELDS_MAX, TABLE_BYTES_MAX, TABLE_FIELDS_MAX, Reader, Writer, find_text, put,
    put_short_string, put_table, skip, skip_headers, take, take_short_string, take_table,
)

from leveret.core.errors import InvalidArgument
from leveret.core.tables import MalformedTable

cdef enum:
    BASIC = 60
    SIZE_AT = 4
    FLAGS_AT = 12
    PROPERTIES_AT = 14
    CONTENT_TYPE = 1 << 15
    CONTENT_ENCODING = 1 << 14
    HEADERS = 1 << 13
    DELIVERY_MODE = 1 << 12
    PRIORITY = 1 << 11
    CORRELATION_ID = 1 << 10
    REPLY_TO = 1 << 9
    EXPIRATION = 1 << 8
    MESSAGE_ID = 1 << 7
    TIMESTAMP = 1 << 6
    TYPE = 1 << 5
    USER_ID = 1 << 4
    APP_ID = 1 << 3
    CLUSTER_ID = 1 << 2
    UNDEFINED = 3

cdef uint64_t EXPIRATION_MS_MAX = 315_360_000_000   # RabbitMQ's limit, ten years


@cython.dataclasses.dataclass
cdef class Properties:
    """What a publisher says about a message; None: nothing. `timestamp` is in seconds."""

    cdef public object content_type, content_encoding, headers, delivery_mode, priority, correlation_id, reply_to
    cdef public object expiration, message_id, timestamp, type, user_id, app_id, cluster_id
    content_type = None  # type: str | None
    content_encoding = None  # type: str | None
    headers = None  # type: dict[str, Any] | None
    delivery_mode = None  # type: int | None
    priority = None  # type: int | None
    correlation_id = None  # type: str | None
    reply_to = None  # type: str | None
    expiration = None  # type: str | None
    message_id = None  # type: str | None
    timestamp = None  # type: int | None
    type = None  # type: str | None
    user_id = None  # type: str | None
    app_id = None  # type: str | None
    cluster_id = None  # type: str | None


def decode_header(bytes payload not None) -> Properties:
    """The properties of a content header; raises MalformedTable and nothing else."""
    cdef Reader reader = Reader(<const uint8_t*>PyBytes_AS_STRING(payload), 0, len(payload), STORED_FIELDS_MAX, 0)
    cdef uint16_t flags = take_flags(&reader)
    cdef Properties found = Properties()
    if flags & CONTENT_TYPE:
        found.content_type = take_short_string(&reader)
    if flags & CONTENT_ENCODING:
        found.content_encoding = take_short_string(&reader)
    if flags & HEADERS:
        found.headers = take_table(&reader, STORED_BYTES_MAX)
    if flags & DELIVERY_MODE:
        found.delivery_mode = take(&reader, 1)
    if flags & PRIORITY:
        found.priority = take(&reader, 1)
    if flags & CORRELATION_ID:
        found.correlation_id = take_short_string(&reader)
    if flags & REPLY_TO:
        found.reply_to = take_short_string(&reader)
    if flags & EXPIRATION:
        found.expiration = take_short_string(&reader)
    if flags & MESSAGE_ID:
        found.message_id = take_short_string(&reader)
    if flags & TIMESTAMP:
        found.timestamp = take(&reader, 8)
    if flags & TYPE:
        found.type = take_short_string(&reader)
    if flags & USER_ID:
        found.user_id = take_short_string(&reader)
    if flags & APP_ID:
        found.app_id = take_short_string(&reader)
    if flags & CLUSTER_ID:
        found.cluster_id = take_short_string(&reader)
    ended(&reader)
    return found


def encode_header(Properties properties not None, uint64_t body_size) -> bytes:
    """The content header of a message; raises InvalidArgument for what does not fit."""
    cdef Writer writer = new_writer()
    try:
        write_header(&writer, properties, body_size)
        return PyBytes_FromStringAndSize(<char*>writer.data, writer.size)
    finally:
        free(writer.data)


def content(properties: Properties | None, bytes body not None) -> tuple[bytes, int]:
    """Content header and body as one bytes object, and the length of the header."""
    if properties is None:
        return make_content(BARE_HEADER, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body)), PROPERTIES_AT
    cdef Writer writer = new_writer()
    try:
        write_header(&writer, properties, 0)
        return joined(writer.data, writer.size, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body)), writer.size
    finally:
        free(writer.data)


def rejoined(bytes header not None, bytes body not None) -> bytes:
    """The content of a message; the header may have been made for any body size."""
    return make_content(header, PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body))


def scan_header(bytes content not None, uint32_t header_len) -> tuple[int, int, int, int]:
    """Priority, delivery mode, expiration in ms (or ABSENT, INVALID) and the offset of the headers (0: none)."""
    if header_len > len(content):
        raise MalformedTable(f"header of {header_len} bytes announced", len(content))
    cdef Scan found
    scan(<const uint8_t*>PyBytes_AS_STRING(content), header_len, &found)
    return found.priority, found.delivery_mode, found.expiration_ms, found.headers_offset


cdef bytes make_content(bytes header, const char* body, Py_ssize_t size):
    """A copy of a header, which may have been made for any body size, and this body after it."""
    if PyBytes_GET_SIZE(header) < PROPERTIES_AT:
        raise MalformedTable("content header too short", PyBytes_GET_SIZE(header))
    return joined(<const uint8_t*>PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header), body, size)


cdef bytes joined(const uint8_t* header, Py_ssize_t header_len, const char* body, Py_ssize_t size):
    cdef bytes whole = PyBytes_FromStringAndSize(NULL, header_len + size)
    cdef char* data = PyBytes_AS_STRING(whole)
    cdef int i
    memcpy(data, header, header_len)
    for i in range(8):
        data[SIZE_AT + i] = <char>(<uint64_t>size >> (56 - 8 * i))
    memcpy(data + header_len, body, size)
    return whole


cdef int scan(const uint8_t* header, uint32_t header_len, Scan* found) except -1:
    """Read what decides how a message is treated, and make sure that decode_header will succeed; builds no objects."""
    cdef Reader reader = Reader(header, 0, header_len, TABLE_FIELDS_MAX, 0)
    cdef uint16_t flags = take_flags(&reader)
    found[0] = Scan(0, 0, ABSENT, 0, 0, flags & USER_ID != 0)
    skip_short_strings(&reader, flags & (CONTENT_TYPE | CONTENT_ENCODING))
    if flags & HEADERS:
        found.headers_offset = <uint32_t>reader.position
        found.special = skip_headers(&reader, TABLE_BYTES_MAX) or found.special
    if flags & DELIVERY_MODE:
        found.delivery_mode = <uint8_t>take(&reader, 1)
    if flags & PRIORITY:
        found.priority = <uint8_t>take(&reader, 1)
    skip_short_strings(&reader, flags & CORRELATION_ID)
    if flags & REPLY_TO:
        found.reply_to_offset = <uint32_t>reader.position
        skip_short_strings(&reader, REPLY_TO)
    if flags & EXPIRATION:
        found.expiration_ms = take_milliseconds(&reader)
    skip_short_strings(&reader, flags & MESSAGE_ID)
    if flags & TIMESTAMP:
        skip(&reader, 8)
    skip_short_strings(&reader, flags & (TYPE | USER_ID | APP_ID | CLUSTER_ID))
    return ended(&reader)


cdef const uint8_t* find_header(const uint8_t* header, uint32_t header_len, bytes name, uint64_t* size) except? NULL:
    """Where the text of one of the headers lies, and its length; NULL when it is not there. Builds no objects."""
    cdef Reader reader = Reader(header, 0, header_len, STORED_FIELDS_MAX, 0)
    cdef uint16_t flags = take_flags(&reader)
    if not flags & HEADERS:
        return NULL
    skip_short_strings(&reader, flags & (CONTENT_TYPE | CONTENT_ENCODING))
    return find_text(&reader, name, size)


cdef uint16_t take_flags(Reader* reader) except? 0xFFFF:
    """Check the fixed part of a content header; give its flags."""
    cdef uint64_t size = reader.end
    if size < PROPERTIES_AT:
        raise MalformedTable("content header too short", size)
    if take(reader, 2) != BASIC:
        raise MalformedTable(f"content header of another class than basic ({BASIC})", 0)
    if take(reader, 2) != 0:
        raise MalformedTable("content header with a weight", 2)
    take(reader, 8)
    cdef uint16_t flags = <uint16_t>take(reader, 2)
    if flags & UNDEFINED:
        raise MalformedTable("property flags that are not defined", FLAGS_AT)
    return flags


cdef int ended(Reader* reader) except -1:
    """Refuse bytes after the last property."""
    if reader.position != reader.end:
        raise MalformedTable("bytes after the last property", reader.position)
    return 0


cdef int skip_short_strings(Reader* reader, uint16_t flags) except -1:
    """Step over as many short strings as flags are set."""
    while flags:
        skip(reader, take(reader, 1))
        flags &= flags - 1
    return 0


cdef int64_t take_milliseconds(Reader* reader) except? -3:
    """An expiration as a number; INVALID if it is none or too large."""
    cdef uint64_t size = take(reader, 1)
    cdef uint64_t value = 0
    cdef const uint8_t* digit = reader.data + reader.position
    skip(reader, size)
    if size == 0:
        return INVALID
    while digit < reader.data + reader.position:
        if not c"0" <= digit[0] <= c"9":
            return INVALID
        value = 10 * value + digit[0] - c"0"
        if value > EXPIRATION_MS_MAX:
            return INVALID
        digit += 1
    return <int64_t>value


cdef inline Writer new_writer() noexcept:
    # Only the table of headers can grow: put_table has its own limit.
    return Writer(NULL, 0, 0, 0xFFFFFFFF, STORED_FIELDS_MAX, 0)


cdef int write_header(Writer* writer, Properties properties, uint64_t body_size) except -1:
    cdef uint16_t flags = 0
    put(writer, BASIC << 16, 4)
    put(writer, body_size, 8)
    put(writer, 0, 2)
    flags |= put_text(writer, CONTENT_TYPE, "content_type", properties.content_type)
    flags |= put_text(writer, CONTENT_ENCODING, "content_encoding", properties.content_encoding)
    flags |= put_headers(writer, properties.headers)
    flags |= put_number(writer, DELIVERY_MODE, "delivery_mode", properties.delivery_mode, 1)
    flags |= put_number(writer, PRIORITY, "priority", properties.priority, 1)
    flags |= put_text(writer, CORRELATION_ID, "correlation_id", properties.correlation_id)
    flags |= put_text(writer, REPLY_TO, "reply_to", properties.reply_to)
    flags |= put_text(writer, EXPIRATION, "expiration", properties.expiration)
    flags |= put_text(writer, MESSAGE_ID, "message_id", properties.message_id)
    flags |= put_number(writer, TIMESTAMP, "timestamp", properties.timestamp, 8)
    flags |= put_text(writer, TYPE, "type", properties.type)
    flags |= put_text(writer, USER_ID, "user_id", properties.user_id)
    flags |= put_text(writer, APP_ID, "app_id", properties.app_id)
    flags |= put_text(writer, CLUSTER_ID, "cluster_id", properties.cluster_id)
    writer.data[FLAGS_AT] = <uint8_t>(flags >> 8)
    writer.data[FLAGS_AT + 1] = <uint8_t>flags
    return 0


cdef uint16_t put_text(Writer* writer, uint16_t flag, str name, object value) except? 0xFFFF:
    """Append a string property if it is set; give its flag."""
    if value is None:
        return 0
    if not isinstance(value, str):
        raise InvalidArgument(f"the property {name} is a string, not {type(value).__name__}")
    put_short_string(writer, value, name)
    return flag


cdef uint16_t put_number(Writer* writer, uint16_t flag, str name, object value, uint32_t width) except? 0xFFFF:
    """Append a number property of `width` bytes if it is set; give its flag."""
    if value is None:
        return 0
    if not isinstance(value, int) or value < 0 or value >> (8 * width):
        raise InvalidArgument(f"the property {name} is a whole number from 0 to 2**{8 * width} - 1")
    put(writer, value, width)
    return flag


cdef uint16_t put_headers(Writer* writer, object headers) except? 0xFFFF:
    """Append the table of headers if there is one; give its flag."""
    if headers is None:
        return 0
    if not isinstance(headers, dict):
        raise InvalidArgument(f"headers are a dict, not {type(headers).__name__}")
    put_table(writer, headers)
    return HEADERS


cdef bytes BARE_HEADER = encode_header(Properties(), 0)
