cdef class ChunkedBody:
    cdef object limits
    cdef bytearray body
    cdef int state, size_digits
    cdef unsigned long long left            # bytes of the current chunk that have not come
    cdef Py_ssize_t bytes_max, extensions, extension_bytes, trailers, trailer_bytes
    cdef readonly bint complete

    cdef Py_ssize_t read(self, bytes data, Py_ssize_t start) except -1
    cdef int end_size(self) except -1
    cdef int limit(self, Py_ssize_t bytes_max) except -1
    cdef int check_size(self) except -1
    cdef int read_trailer(self, int state, unsigned char byte) except -1
    cdef int add_extension_byte(self) except -1
    cdef int add_trailer_byte(self) except -1
