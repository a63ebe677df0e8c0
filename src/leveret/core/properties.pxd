from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef struct Scan:               # what a content header says about how to treat the message
    uint8_t priority            # 0 if absent
    uint8_t delivery_mode       # 0 if absent
    int64_t expiration_ms       # ABSENT, or INVALID if it is no number of milliseconds
    uint32_t headers_offset     # of the table of headers, 0 if absent
    uint32_t reply_to_offset    # of that short string, 0 if absent
    bint special                # a header that asks for something (CC, BCC, x-...), or a user id

cpdef enum:
    ABSENT = -1
    INVALID = -2

cdef bytes make_content(bytes header, const char* body, Py_ssize_t size)
cdef const uint8_t* find_header(const uint8_t* header, uint32_t header_len, bytes name, uint64_t* size) except? NULL
cdef int scan(const uint8_t* header, uint32_t header_len, Scan* found) except -1
