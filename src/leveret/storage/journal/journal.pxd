from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leveret.core.message cimport Message
from leveret.core.ports cimport Place
from leveret.storage.journal.batch cimport OpenBatches

cdef class FileJournal(OpenBatches):
    cdef readonly dict live                 # segment -> records that some queue still holds
    cdef readonly dict placed               # segment -> records that were ever put there
    cdef object reader
    cdef uint32_t counted                   # counts of one segment wait here to be added to live and placed
    cdef int64_t live_change
    cdef int64_t placed_change
    cdef uint32_t window_segment
    cdef uint32_t window_offset
    cdef bytes window
    cdef int count(self, uint32_t segment, int64_t live, int64_t placed) except -1
    cdef int fold_counts(self) except -1
    cdef const uint8_t* written_record(self, Place* place) except NULL
