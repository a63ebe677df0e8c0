from libc.stdint cimport uint8_t, uint32_t, uint64_t

# Without these a message of a few kilobytes could ask for gigabytes of memory or for all of the C stack.
cpdef enum:
    TABLE_DEPTH_MAX = 32                # tables and arrays together
    TABLE_FIELDS_MAX = 1_000            # in all, array elements too
    TABLE_BYTES_MAX = 131_072
    KEY_BYTES_MAX = 255
    # What we store may be larger than what a publisher may send: dead-lettering adds its history.
    STORED_FIELDS_MAX = 4_000
    STORED_BYTES_MAX = 196_608

cdef struct Reader:                     # a place in bytes that are not to be trusted
    const uint8_t* data
    uint64_t position
    uint64_t end                        # of the innermost table or array
    uint32_t fields_left
    uint32_t depth

cdef struct Writer:                     # bytes that grow; free data when done
    uint8_t* data
    uint64_t size
    uint64_t capacity
    uint64_t size_max
    uint32_t fields_left
    uint32_t depth

cdef int overrun(Reader* reader, uint64_t size) except -1

# These are here and inline because the scan of each published header is made of them. Every size is compared with the
# bytes that remain before anything is added to it.

cdef inline int require(Reader* reader, uint64_t size) except -1:
    return overrun(reader, size) if size > reader.end - reader.position else 0

cdef inline int skip(Reader* reader, uint64_t size) except -1:
    require(reader, size)
    reader.position += size
    return 0

cdef inline uint64_t big_endian(const uint8_t* data, uint32_t width) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint32_t i
    for i in range(width):
        value = value << 8 | data[i]
    return value

cdef inline uint64_t take(Reader* reader, uint32_t width) except? 0xFFFFFFFFFFFFFFFF:
    skip(reader, width)
    return big_endian(reader.data + reader.position - width, width)

cdef str take_short_string(Reader* reader)
cdef bint skip_headers(Reader* reader, uint64_t bytes_max) except -1
cdef const uint8_t* find_text(Reader* reader, bytes key, uint64_t* size) except? NULL
cdef dict take_table(Reader* reader, uint64_t bytes_max)

cdef int put(Writer* writer, uint64_t value, uint32_t width) except -1
cdef int put_short_string(Writer* writer, str text, str what) except -1
cdef int put_table(Writer* writer, dict table) except -1
