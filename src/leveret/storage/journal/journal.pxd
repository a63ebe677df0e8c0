from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from leveret.core.ports cimport Content, Entry, Journal, Place
from leveret.storage.journal.records cimport Buffer, WrittenTail

cdef class FileJournal(Journal):
    cdef readonly uint64_t pending          # the commit batch that is being filled: what a publisher waits for
    cdef readonly uint64_t durable          # the last commit batch that is confirmed
    cdef readonly uint32_t segment          # where the commit batch being filled will begin
    cdef readonly uint32_t offset
    cdef uint32_t segment_filled            # the last one that holds more than empty commit batches
    cdef readonly uint64_t sealed_bytes     # of commit batches that are sealed and not yet written
    cdef public uint64_t frame_bytes_max
    cdef uint64_t segment_bytes
    cdef uint64_t unwritten_bytes_max
    cdef uint32_t tag_bytes
    cdef object clock
    cdef Buffer body
    cdef Buffer index
    cdef Buffer spare
    cdef list unwritten
    cdef WrittenTail tail
    cdef readonly dict live                 # segment -> records that some queue still holds
    cdef readonly dict placed               # segment -> records that were ever put there
    cdef object reader
    cdef uint32_t counted                   # counts of one segment wait here to be added to live and placed
    cdef int64_t live_change
    cdef int64_t placed_change
    cdef uint32_t window_segment
    cdef uint32_t window_offset
    cdef bytes window
    cdef int append_record(self, Content* content, list queues, uint16_t flags, Place* place) except -1
    cdef int append_queues(self, list queues) except -1
    cdef uint32_t append_area(self, const void* data, size_t size) except? 0xFFFFFFFF
    cdef int append_with_area(self, uint8_t kind, uint8_t detail, uint32_t queue, uint64_t seq, bytes content) except -1
    cdef void* append_entry(self) except NULL
    cdef int append_run(
        self, uint8_t kind, uint8_t how, uint32_t queue, Entry* entry, uint64_t at_ms, uint32_t held_ms, uint32_t consumer
    ) except -1
    cdef const uint8_t* unwritten_record(self, Place* place) noexcept
    cdef int count(self, uint32_t segment, int64_t live, int64_t placed) except -1
    cdef int fold_counts(self) except -1
    cdef const uint8_t* written_record(self, Place* place) except NULL
