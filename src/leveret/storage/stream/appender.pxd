from libc.stdint cimport uint64_t

from leveret.core.ports cimport Content
from leveret.storage.stream.blocks cimport Block

cdef class Appender:
    cdef readonly uint64_t next_offset
    cdef readonly uint64_t last_ms
    cdef readonly uint64_t sealed_bytes     # of blocks that are not written, without the one being filled
    cdef public object refusal              # why nothing is taken now, or None
    cdef uint64_t block_bytes
    cdef readonly object producers
    cdef Block block
    cdef Block spare
    cdef list sealed
    cdef bint take(
        self, Content* content, uint64_t now_ms, bytes filter_value, bytes producer, uint64_t sequence
    ) except -1
    cdef int seal(self) except -1
