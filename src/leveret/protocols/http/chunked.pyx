"""Decodes a chunked body, and refuses what is not exactly RFC 9112.

    chunk      = size [ ";" extension ] CRLF data CRLF          size: 1 to 16 hexadecimal digits, nothing around them
    body       = *chunk "0" [ ";" extension ] CRLF *trailer CRLF
    trailer    = name ":" value CRLF

Extensions and trailers are counted and dropped: no handler has checked them. They are never collected, so that a line
without an end costs nothing but its bytes on the wire, and the limits hold in whatever pieces the bytes come.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING
from libc.string cimport memcpy

from leveret.protocols.http.request import Refusal

cdef enum:
    SIZE = 0
    EXTENSION
    SIZE_LF
    DATA
    DATA_CR
    DATA_LF
    TRAILER_START
    TRAILER_NAME
    TRAILER_VALUE
    TRAILER_LF
    END_LF
    SIZE_DIGITS_MAX = 16        # 64 bits: more would overflow and mean another size
    CR = 13
    LF = 10
    TAB = 9
    DELETE = 127


cdef class ChunkedBody:
    """The body of one request."""

    def __init__(self, limits, Py_ssize_t bytes_max) -> None:
        self.limits = limits
        self.bytes_max = bytes_max
        self.body = bytearray()
        self.state = SIZE

    cdef Py_ssize_t read(self, bytes data, Py_ssize_t start) except -1:
        """Decode from `start`; the index behind the last byte that belongs to the body."""
        cdef const unsigned char* at = <const unsigned char*>PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = len(data), place = start, part, had
        cdef int state = self.state, digit
        cdef unsigned char byte
        while place < end:
            if state == DATA:
                part = <Py_ssize_t>min(self.left, <unsigned long long>(end - place))
                had = len(self.body)
                PyByteArray_Resize(self.body, had + part)
                memcpy(PyByteArray_AS_STRING(self.body) + had, at + place, part)
                place += part
                self.left -= part
                if not self.left:
                    state = DATA_CR
                continue
            byte = at[place]
            place += 1
            if state == SIZE:
                digit = hex_digit(byte)
                if digit >= 0:
                    self.size_digits += 1
                    if self.size_digits > SIZE_DIGITS_MAX:
                        raise malformed(f"a chunk size has over {SIZE_DIGITS_MAX} digits")
                    self.left = self.left << 4 | <unsigned int>digit
                elif not self.size_digits:
                    raise malformed("a chunk does not begin with its size in hexadecimal digits")
                elif byte == CR:
                    state = SIZE_LF
                elif byte == b";":
                    self.extensions += 1
                    if self.extensions > self.limits.extensions_max:
                        raise Refusal(
                            400, f"over {self.limits.extensions_max} chunks have extensions: send chunks without them"
                        )
                    self.add_extension_byte()
                    state = EXTENSION
                else:
                    raise malformed("a chunk size is followed by something else than a semicolon or the line end")
            elif state == EXTENSION:
                self.add_extension_byte()
                if byte == CR:
                    state = SIZE_LF
                elif is_control(byte):
                    raise malformed("a chunk extension has a control character")
            elif state == SIZE_LF or state == DATA_LF or state == TRAILER_LF or state == END_LF:
                if byte != LF:
                    raise malformed("a carriage return without a line feed")
                if state == END_LF:
                    self.complete = True
                    break
                if state == SIZE_LF:
                    state = self.end_size()
                else:
                    state = SIZE if state == DATA_LF else TRAILER_START
            elif state == DATA_CR:
                if byte != CR:
                    raise malformed("a chunk has more bytes than its size says")
                state = DATA_LF
            else:
                state = self.read_trailer(state, byte)
        self.state = state
        return place

    cdef int end_size(self) except -1:
        """The state after a chunk's first line; a body that is too large is refused before its bytes come."""
        self.size_digits = 0
        if not self.left:
            return TRAILER_START
        self.check_size()
        return DATA

    cdef int limit(self, Py_ssize_t bytes_max) except -1:
        """Let the whole body have so many bytes at most."""
        self.bytes_max = bytes_max
        if self.state == DATA:
            self.check_size()

    cdef int check_size(self) except -1:
        """Refuse a body that is too large with the rest of its current chunk."""
        cdef Py_ssize_t room = self.bytes_max - len(self.body)
        if room < 0 or self.left > <unsigned long long>room:  # not the sum: it could overflow
            raise Refusal(413, f"the body has over {self.bytes_max} bytes: send less at a time")

    cdef int read_trailer(self, int state, unsigned char byte) except -1:
        """The state after one byte of the trailers."""
        if state == TRAILER_START:
            if byte == CR:
                return END_LF
            self.trailers += 1
            if self.trailers > self.limits.trailers_max:
                raise Refusal(431, f"there are over {self.limits.trailers_max} trailers: send fewer")
        self.add_trailer_byte()
        if state == TRAILER_VALUE:
            if byte == CR:
                return TRAILER_LF
            if is_control(byte):
                raise malformed("a trailer has a control character")
            return TRAILER_VALUE
        if byte == b":" and state == TRAILER_NAME:
            return TRAILER_VALUE
        if not is_token(byte):
            raise malformed("a trailer does not begin with a name and a colon")
        return TRAILER_NAME

    cdef int add_extension_byte(self) except -1:
        self.extension_bytes += 1
        if self.extension_bytes > self.limits.extension_bytes_max:
            raise Refusal(
                400, f"chunk extensions have over {self.limits.extension_bytes_max} bytes: send chunks without them"
            )

    cdef int add_trailer_byte(self) except -1:
        self.trailer_bytes += 1
        if self.trailer_bytes > self.limits.trailer_bytes_max:
            raise Refusal(431, f"the trailers have over {self.limits.trailer_bytes_max} bytes: send less")


def malformed(what) -> Refusal:
    return Refusal(400, f"this is not HTTP/1.1: {what}: correct the chunks")


cdef int hex_digit(unsigned char byte) noexcept:
    """Its value, or -1."""
    if 48 <= byte <= 57:
        return byte - 48
    byte |= 32
    return byte - 87 if 97 <= byte <= 102 else -1


cdef bint is_control(unsigned char byte) noexcept:
    return (byte < 32 and byte != TAB) or byte == DELETE


cdef bint is_token(unsigned char byte) noexcept:
    """Whether it may be in the name of a field."""
    if 48 <= byte <= 57 or 65 <= byte <= 90 or 97 <= byte <= 122:
        return True
    return byte in b"!#$%&'*+-.^_`|~"
