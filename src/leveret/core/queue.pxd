from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core.consumer cimport Consumer
from leveret.core.engine cimport Engine
from leveret.core.expiries cimport Expiries
from leveret.core.held cimport Held, Holder
from leveret.core.histogram cimport Histogram, PriorityCounts
from leveret.core.ports cimport Content, Entry
from leveret.core.ready cimport Ready
from leveret.core.streams cimport Recorder

cdef struct Counters:
    uint64_t published, delivered, redelivered, acked, nacked, timed_out
    uint64_t rejected, expired, maxlen, delivery_limit, refused, dropped, moved
    uint64_t pushed, pushed_settled     # of those delivered: to consumers, and to such as need not acknowledge
    uint64_t taken_settled              # and those taken one by one by such

cdef class Queue(Holder):
    cdef readonly Engine engine
    cdef readonly uint32_t id
    cdef readonly str name, vhost
    cdef readonly bint durable, auto_delete, paused
    cdef public bint deleted
    cdef readonly bytes route           # of a message sent straight to it
    cdef readonly object owner          # the connection that has exclusive use of it, or None
    cdef readonly object arguments  # type: Mapping[str, Any] | None  # as declared
    cdef readonly object policy  # type: QueuePolicy
    cdef public object dedup  # type: Dedup
    cdef public uint32_t segment        # where its definition lies in the journal
    cdef public Recorder recorder  # type: Recorder | None  # where messages go if this is a stream, else None
    cdef list own_id                    # [id]: the journal takes lists
    cdef Ready ready                    # None before there is a message
    cdef dict held                      # seq -> Held: everything that is not in a lane
    cdef Expiries expiries              # None before something can expire
    cdef public list consumers  # type: list[Consumer] | None
    cdef Py_ssize_t turn
    cdef readonly Consumer active  # type: Consumer | None  # with single active consumer
    cdef public bint watched            # a waiter is to be told when there is something to take
    cdef public uint64_t created_ms     # when it was declared; 0: by a version that did not note it
    cdef readonly uint64_t used_ms
    cdef readonly uint32_t leased, scheduled
    cdef readonly uint64_t dlx, dlx_bytes   # dead letters that are held until their targets have them, and their bodies
    cdef Counters counters
    cdef PriorityCounts published_by    # of a queue with priorities; None before the first message
    cdef Histogram waiting, processing      # in ms: until the first delivery, from the last one on; as `ready`
    cdef uint64_t ttl_ms, retention_ms, delay_ms, expires_ms, max_length, max_bytes
    cdef uint64_t consumer_timeout_ms   # 0: none
    cdef bint single_active
    cdef readonly bint is_quorum        # journals every message; x-delivery-count says how often one was delivered
    cdef uint32_t max_deliveries        # 0: no limit
    cdef readonly uint8_t max_priority
    cdef bint grouped
    cdef bint batches                   # one call may take several messages of an ordered group
    cdef bint has_blobs
    cdef bint drops_head                # over its length it drops the oldest
    cdef bint limited                   # a publish may be refused
    cdef uint64_t expires_at(self, uint64_t wanted_ms, uint64_t now_ms, uint64_t due_ms) noexcept
    cdef int enter(self, Entry* entry, uint64_t due_ms, uint64_t group) except -1
    cdef int record(self, Content* content) except -1
    cdef int wait(self, Entry* entry, uint64_t group) except -1
    cdef int wake(self, uint64_t when_ms) except -1
    cdef uint8_t expiry_reason(self, Held held) noexcept
    cdef int hold(self, Held held) except -1
    cdef int schedule(self, Held held, uint64_t due_ms) except -1
    cdef Held next(self, uint64_t group=*)
    cdef int lease(self, Held held, uint64_t lease_ms, object consumer) except -1
    cdef int open_held(self, Held held) except -1
    cdef int put_back(self, Held held) except -1
    cdef uint32_t consumer_id(self, object consumer) except? 0
    cdef int end_lease(self, Held held) except -1
    cdef int settle(self, Held held, uint8_t how) except -1
    cdef int give_back(self, Held held, uint8_t how, uint64_t due_ms) except -1
    cdef int signal(self) except -1
    cdef int reappear(self, Held held) except -1
    cdef int trim(self) except -1
    cdef bint overflows(self) noexcept
    cdef Held remove(self, uint64_t seq, uint8_t priority, uint64_t group)
    cpdef use(self)
