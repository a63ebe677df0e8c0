from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef enum:
    PERSISTENT = 1      # journaled; without it the message lives in memory only
    BLOB = 2            # the content after the header is a pointer into the blob store
    REDELIVERED = 4     # was delivered before a restart whose count was lost
    TRACED = 8          # its life is told to the tracer of the broker, if there is one

cdef class Message:
    cdef readonly bytes route           # exchange and routing key as two AMQP short strings
    cdef readonly bytes content         # AMQP content header payload, then the body
    cdef readonly uint32_t header_len   # bytes of content that are header
    cdef readonly uint64_t seq          # the number given at publish, dense over the whole broker
    cdef readonly uint64_t enqueued_ms
    cdef readonly uint64_t expiry_ms    # 0: never
    cdef readonly uint64_t due_ms       # 0: at once
    cdef readonly uint64_t group        # hash of the message group, 0: none
    cdef readonly uint8_t priority
    cdef readonly uint8_t flags
    cdef readonly uint32_t references   # queue places that still hold it, while it is cached
    cdef object decoded                 # properties, once they were asked for

cdef Message new_message(
    bytes route, bytes content, uint32_t header_len, uint8_t priority, uint8_t flags,
    uint64_t expiry_ms, uint64_t due_ms, uint64_t group
)
