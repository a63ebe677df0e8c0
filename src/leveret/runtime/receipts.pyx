"""Receipts: strings that prove a lease, for those who settle a message without holding its object.

    base64url( queue number 4 | message number 8 | lease 8 | 16 bytes of SipHash over those )

The key is that of the store, so the next process that opens it reads them, too. Leases end with the process, and the numbers of the
next ones are higher (see leveret.core.restore): an old receipt names a message, and no delivery that there is.
Compiled because HTTP writes one and reads one for each message.
"""

import hmac

from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_1BYTE_DATA, PyUnicode_New

from leveret.core.errors import InvalidReceipt

cdef extern from "siphash.h" nogil:
    void siphash_128(const unsigned char* key, const unsigned char* data, size_t size, unsigned char* out)

cdef enum:
    KEY_BYTES = 16
    QUEUE_BYTES = 4
    FACTS_BYTES = 20
    RAW_BYTES = 36
    CHARS = 48          # of 36 bytes in base64: without padding, and every one of them counts
    NO_DIGIT = 255

RECEIPT_CHARS: int = CHARS
PURPOSE = b"receipts"
cdef const char* ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
cdef unsigned char VALUES[256]


cdef int fill_values() except -1:
    cdef int i
    for i in range(256):
        VALUES[i] = NO_DIGIT
    for i in range(64):
        VALUES[<unsigned char>ALPHABET[i]] = <unsigned char>i
    return 0


fill_values()


cdef void put(unsigned char* out, uint64_t value, int size) noexcept:
    """A number, its highest byte first."""
    cdef int i
    for i in range(size - 1, -1, -1):
        out[i] = <unsigned char>(value & 255)
        value >>= 8


cdef uint64_t get(const unsigned char* data, int size) noexcept:
    cdef uint64_t value = 0
    cdef int i
    for i in range(size):
        value = value << 8 | data[i]
    return value


cdef bint decode(const unsigned char* text, unsigned char* out) noexcept:
    """The bytes of a receipt; False when a character is not of the alphabet."""
    cdef uint32_t group
    cdef unsigned char value
    cdef int i, j
    for i in range(CHARS // 4):
        group = 0
        for j in range(4):
            value = VALUES[text[4 * i + j]]
            if value == NO_DIGIT:
                return False
            group = group << 6 | value
        put(out + 3 * i, group, 3)
    return True


cdef class Receipts:
    """Makes receipts, and reads those that it made."""

    def __init__(self, bytes secret not None) -> None:
        self.key = hmac.digest(secret, PURPOSE, "sha256")[:KEY_BYTES]

    def write(self, uint32_t queue, uint64_t seq, uint64_t lease) -> str:
        return self.make(queue, seq, lease)

    def read(self, uint32_t queue, receipt: str) -> tuple[int, int]:
        """The message and lease of a receipt of this queue."""
        cdef Facts facts
        why = self.fault(receipt, &facts)
        if why is None and facts.queue != queue:
            why = "is of another queue"
        if why is not None:
            raise InvalidReceipt(
                f"the receipt {why}: use the one that came with the message, or receive it again"
            )
        return facts.seq, facts.lease

    cdef str make(self, uint32_t queue, uint64_t seq, uint64_t lease):
        cdef unsigned char raw[RAW_BYTES]
        cdef str text = PyUnicode_New(CHARS, 127)
        cdef unsigned char* out = <unsigned char*>PyUnicode_1BYTE_DATA(text)
        cdef uint32_t group
        cdef int i
        put(raw, queue, QUEUE_BYTES)
        put(raw + QUEUE_BYTES, seq, 8)
        put(raw + QUEUE_BYTES + 8, lease, 8)
        siphash_128(self.key, raw, FACTS_BYTES, raw + FACTS_BYTES)
        for i in range(RAW_BYTES // 3):
            group = <uint32_t>get(raw + 3 * i, 3)
            out[4 * i] = ALPHABET[group >> 18]
            out[4 * i + 1] = ALPHABET[group >> 12 & 63]
            out[4 * i + 2] = ALPHABET[group >> 6 & 63]
            out[4 * i + 3] = ALPHABET[group & 63]
        return text

    cdef str fault(self, object receipt, Facts* facts):
        """What is wrong with a receipt; None when it is one, and its facts are told."""
        cdef unsigned char raw[RAW_BYTES]
        cdef unsigned char proof[RAW_BYTES - FACTS_BYTES]
        cdef unsigned char difference = 0
        cdef int i
        if not isinstance(receipt, str) or len(receipt) != CHARS or not (<str>receipt).isascii():
            return "is not a receipt"
        if not decode(<unsigned char*>PyUnicode_1BYTE_DATA(receipt), raw):
            return "is not a receipt"
        siphash_128(self.key, raw, FACTS_BYTES, proof)
        # All of them, whichever differs: how long it takes must not tell how many are right.
        for i in range(RAW_BYTES - FACTS_BYTES):
            difference |= proof[i] ^ raw[FACTS_BYTES + i]
        if difference:
            return "was not made by this broker"
        facts.queue = <uint32_t>get(raw, QUEUE_BYTES)
        facts.seq = get(raw + QUEUE_BYTES, 8)
        facts.lease = get(raw + QUEUE_BYTES + 8, 8)
        return None


def proof_of(bytes key not None, bytes facts not None) -> bytes:
    """What only the owner of a key of 16 bytes can add to some facts."""
    cdef unsigned char proof[RAW_BYTES - FACTS_BYTES]
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
    siphash_128(key, facts, len(facts), proof)
    return PyBytes_FromStringAndSize(<char*>proof, RAW_BYTES - FACTS_BYTES)
