"""Message ids: a UUID (version 8) made of the broker's own 60 bits and the number of the message.

    tttttttt-tttt-8ttt-vsss-ssssssssssss        t: tag of the broker, s: number, v: variant bits and number

The number can be read back, so that no index from ids to messages is needed.
"""

from cpython.unicode cimport PyUnicode_1BYTE_DATA, PyUnicode_New

cdef enum:
    LENGTH = 36

cdef uint64_t SEQ_MASK = (<uint64_t>1 << 62) - 1
cdef uint64_t VARIANT = <uint64_t>1 << 63
cdef const char* DIGITS = "0123456789abcdef"


cdef str id_of(uint64_t tag, uint64_t seq):
    cdef uint64_t high = (tag >> 12 << 16) | 0x8000 | (tag & 0xFFF), low = VARIANT | (seq & SEQ_MASK)
    cdef str text = PyUnicode_New(LENGTH, 127)
    cdef unsigned char* out = <unsigned char*>PyUnicode_1BYTE_DATA(text)
    cdef int i, at = LENGTH - 1
    for i in range(16):
        if at == 23:
            out[at] = c"-"
            at -= 1
        out[at] = DIGITS[low & 15]
        low >>= 4
        at -= 1
    for i in range(16):
        if at == 18 or at == 13 or at == 8:
            out[at] = c"-"
            at -= 1
        out[at] = DIGITS[high & 15]
        high >>= 4
        at -= 1
    return text


def format_id(uint64_t tag, uint64_t seq) -> str:
    return id_of(tag, seq)


def parse_id(uint64_t tag, str text not None) -> int:
    """The number in an id; 0 when the id is not of this broker."""
    try:
        value = int(text.replace("-", ""), 16)
    except ValueError:
        return 0
    seq = value & SEQ_MASK
    return seq if len(text) == LENGTH and format_id(tag, seq) == text.lower() else 0
