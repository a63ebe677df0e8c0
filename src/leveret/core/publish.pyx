"""Publishing: from a message to the queues that take it; and dead-lettering, which is publishing again.

Outcomes are values: 0 is "no queue took it". Refusals that the publisher must hear of are exceptions.
"""

from collections import deque
from itertools import islice

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core import deadletter
from leveret.core.dispatch import pump
from leveret.core.errors import DiskFull, InvalidArgument, JournalFailed, MessageTooLarge, QueueFull, TooMany
from leveret.core.filters import GROUP_HEADER
from leveret.core.held cimport BACKING_OFF, DONE, HELD_DEAD_MS, SCHEDULED, Held, Holder
from leveret.core.ids import format_id
from leveret.core.message cimport BLOB, PERSISTENT, new_message
from leveret.core.ports cimport (
    DELAYED, DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, RETIRED,
)
from leveret.core.properties import content as make_content_of
from leveret.core.properties cimport make_content
from leveret.core.timers import Alarm

REASONS = {REJECTED: "rejected", EXPIRED: "expired", MAXLEN: "maxlen", DELIVERY_LIMIT: "delivery_limit"}
ORIGIN = "x-origin-id"      # the id that a dead letter had at first
RECEIVED = "x-received"     # how often a dead letter was delivered before it died
RETRY_MS = 180_000          # until a held dead letter is tried again, as in RabbitMQ
RETRY_SOON_MS = 1_000       # after a change of definitions, of which many may come together
RETRIES_MAX = 1_000         # at a time
RECEIVED_MAX = 1 << 30      # a publisher can write the header too
cdef uint64_t FNV_OFFSET = 14695981039346656037U
cdef uint64_t FNV_PRIME = 1099511628211U


def group_key(str group not None) -> int:
    """The number of a message group: stable, never 0. Two groups that meet only share their turn."""
    cdef uint64_t hashed = FNV_OFFSET
    cdef uint8_t each
    for each in group.encode():
        hashed = (hashed ^ each) * FNV_PRIME
    return hashed or 1


def group_of(dict headers) -> int:
    """The number of the group that a header names; 0: none."""
    group = headers.get(GROUP_HEADER)
    return group_key(group) if isinstance(group, str) else 0


def route_of(str exchange not None, str routing_key not None) -> bytes:
    """Exchange and routing key as on the wire."""
    first = exchange.encode("utf-8", "surrogateescape")
    second = routing_key.encode("utf-8", "surrogateescape")
    return bytes([len(first)]) + first + bytes([len(second)]) + second


cdef class Publisher(Restorable):
    """The verbs that put messages into queues; `tag` is the broker's part of message ids."""

    def __init__(self, journal, uint64_t tag=0) -> None:
        Restorable.__init__(self, journal)
        self.tag = tag
        self.graves = deque()
        self.dying = {}
        self.alarm = Alarm(self.timers, self.retry_dead)

    def send(
        self, Queue queue not None, bytes content not None, uint32_t header_len, *, uint8_t priority=0,
        bint persistent=True, uint64_t expiry_ms=0, uint64_t due_ms=0, uint64_t group=0, bytes key=None,
    ) -> int:
        """Publish one message straight to a queue; give its number, or that of the one which it duplicates."""
        cdef uint8_t flags = PERSISTENT if persistent else 0
        cdef Message message = new_message(
            queue.route, content, header_len, priority, flags, expiry_ms, due_ms, group
        )
        seq = self.offer(message, [queue], key)
        if seq == 0:
            raise full(queue)
        return seq

    def send_many(
        self, Queue queue not None, bytes header not None, list bodies not None, *, uint8_t priority=0,
        bint persistent=True, uint64_t expiry_ms=0, uint64_t due_ms=0, uint64_t group=0,
    ) -> list[int]:
        """Publish many bodies with the same properties (`header` is their content header); 0 stands for a refused one."""
        cdef uint8_t flags = PERSISTENT if queue.is_quorum or (persistent and queue.durable) else 0
        cdef list queues = [queue], numbers = []
        cdef uint32_t header_len = <uint32_t>len(header)
        cdef Message message
        cdef bytes body
        self.check_room(queues, flags)
        for body in bodies:
            message = new_message(
                queue.route, make_content(header, <const char*>body, len(body)), header_len, priority, flags, expiry_ms,
                due_ms, group,
            )
            numbers.append(self.offer(message, queues, None) if queue.limited else self.place(message, queues))
        return numbers

    def publish(
        self, list queues not None, bytes route not None, bytes content not None, uint32_t header_len, *,
        uint8_t priority=0, bint persistent=True, bint blob=False, uint64_t expiry_ms=0, uint64_t due_ms=0,
        uint64_t group=0, bytes key=None,
    ) -> int:
        """Publish to the queues that an exchange gave; 0 when one of them refused or there was none."""
        cdef uint8_t flags = (PERSISTENT if persistent else 0) | (BLOB if blob else 0)
        if not queues:
            return 0
        return self.offer(
            new_message(route, content, header_len, priority, flags, expiry_ms, due_ms, group), queues, key
        )

    cdef uint64_t offer(self, Message message, list queues, bytes key) except? 0:
        """Give a message to those of the queues that take it; 0 when one of them is full."""
        cdef Queue queue
        cdef list accepted = []
        cdef bint refused = False
        cdef uint64_t seq = 0
        self.check_room(queues, message.flags)
        for queue in queues:
            if queue.limited:
                check_size(queue, message)
            if queue.limited and self.refuses(queue, message):
                refused = True
                continue
            if key is not None:
                original = queue.duplicate_of(key)
                if original is not None:
                    seq = original
                    continue
            accepted.append(queue)
        if accepted:
            seq = self.put(message, accepted)
            if key is not None:
                for queue in accepted:
                    segment = self.journal.deduplicated(queue.id, key, seq, self.now_ms) if queue.durable else 0
                    queue.remember(key, seq, self.now_ms, segment)
        return 0 if refused else seq

    cdef int check_room(self, list queues, uint8_t flags) except -1:
        """Refuse what would be journaled when the disk is nearly full. Dead letters do not ask: they free their room."""
        cdef Queue queue
        if self.journal.full:
            for queue in queues:
                if queue.recorder is not None or queue.is_quorum or (flags & PERSISTENT and queue.durable):
                    raise DiskFull(
                        "the disk is nearly full: free space, or let consumers work; acknowledgements are taken"
                    )
        return 0

    cdef bint refuses(self, Queue queue, Message message) except -1:
        """Whether a queue is full and rejects."""
        if queue.policy.overflow == "drop-head" or not queue.would_overflow(body_bytes(message)):
            return False
        if queue.consumers:
            self.push(queue)
            if not queue.would_overflow(body_bytes(message)):
                return False
        queue.counters.refused += 1
        if queue.policy.overflow == "reject-publish-dlx":
            queue.counters.maxlen += 1
            self.graves.append((queue, None, message, MAXLEN))
            self.bury_all()
        return True

    cdef uint64_t put(self, Message message, list queues) except? 0:
        """Journal for some queues, keep in memory for the others: each kind has a record of its own.

        A quorum queue journals every message, another durable queue those that are persistent.
        """
        cdef bint persistent = message.flags & PERSISTENT
        cdef Queue queue
        cdef list journaled = [], transient = []
        for queue in queues:
            (journaled if queue.is_quorum or (persistent and queue.durable) else transient).append(queue)
        if journaled and transient:
            self.place(with_flags(message, message.flags & ~PERSISTENT), transient)
        if not journaled:
            return self.place(with_flags(message, message.flags & ~PERSISTENT) if persistent else message, transient)
        return self.place(message if persistent else with_flags(message, message.flags | PERSISTENT), journaled)

    # Dead letters

    cdef int push(self, Holder queue) except -1:
        """See Engine; whoever publishes is not the one to hear of a message that cannot be delivered."""
        try:
            pump(queue)
        except JournalFailed:
            raise
        except Exception:
            (<Queue>queue).signal()     # it is tried again, and then the owner of the lock hears of it
        return 0

    cdef int queue_expired(self, Holder queue) except -1:
        """See Engine; in a copy of definitions nobody can tell that a queue is used."""
        if not (self.is_copy or self.leaving):
            self.delete_queue(queue)
        return 0

    cdef int dead(self, Holder holder, Held held, uint8_t reason) except -1:
        """See Engine: the dead letter and the settle are of one frame, so that neither is without the other."""
        cdef Queue queue = <Queue>holder
        count_death(queue, reason)
        if reason == RETIRED or queue.policy.dead_letter_exchange is None:
            return queue.settle(held, reason)
        self.graves.append((queue, held, None, reason))
        return self.bury_all()

    cdef int bury_all(self) except -1:
        """Dead-letter what has died, and what dies of that: one after the other, since a chain of full queues is long."""
        cdef Held held
        if self.burying:
            return 0
        self.burying = True
        try:
            while self.graves:
                queue, held, message, reason = self.graves.popleft()
                if held is None:
                    self.dead_letter(queue, message, reason)
                elif held.state != DONE and not (held in self.dying and (<Queue>queue).deleted):
                    message = held.content if held.content is not None else self.journal.read(&held.entry)
                    reached = self.dying.get(held, set())
                    if not self.dead_letter(queue, message, reason, held.entry.deliveries, reached):
                        self.hold_dead(queue, held, reason)
                        self.dying[held] = reached
                        continue
                    if self.dying.pop(held, None) is not None:
                        (<Queue>queue).dlx -= 1
                        (<Queue>queue).dlx_bytes -= held_bytes(held)
                    (<Queue>queue).settle(held, reason)
        finally:
            self.burying = False
        return 0

    cdef int hold_dead(self, Queue queue, Held held, uint8_t reason) except -1:
        """Keep a dead letter in its queue, where no consumer gets it, until all of its targets have it."""
        cdef uint64_t held_ms = min(self.now_ms - min(self.now_ms, held.delivered_ms), <uint64_t>0xFFFFFFFF)
        cdef bint busy = held.group != 0 and held.state != SCHEDULED
        if held in self.dying:
            return 0
        if held.entry.place.segment:
            self.journal.returned(
                queue.id, &held.entry, DELAYED, HELD_DEAD_MS + reason, <uint32_t>held_ms, queue.consumer_id(held.consumer)
            )
        queue.end_lease(held)
        if busy:
            queue.ready.release(held)
            queue.signal()
        held.group = held.lease = 0
        held.consumer = None
        held.state = BACKING_OFF
        held.when_ms = HELD_DEAD_MS + reason
        self.note_dying(held)
        return 0

    def note_dying(self, Held held not None) -> None:
        """Try a held dead letter again later."""
        cdef Queue queue = <Queue>held.queue
        queue.dlx += 1
        queue.dlx_bytes += held_bytes(held)
        self.dying[held] = set()
        if len(self.dying) == 1:
            self.alarm.set(self.now_ms + RETRY_MS)

    def find_dying(self) -> None:
        """Find the dead letters that are held, after a restart, and try them soon."""
        cdef Queue queue
        cdef Held held
        for queue in self.queues.values():
            for held in list((queue.held or {}).values()) if queue.is_quorum else ():
                if held.state == BACKING_OFF and held.when_ms >= HELD_DEAD_MS:
                    self.note_dying(held)
        self.retry_soon()

    def retry_soon(self) -> None:
        """Definitions changed: held dead letters may have a route now."""
        if self.dying and self.alarm.when_ms > self.now_ms + RETRY_SOON_MS:
            self.alarm.set(self.now_ms + RETRY_SOON_MS)

    def retry_dead(self, uint64_t now_ms) -> None:
        """Try held dead letters again, some at a time, the one that was tried last comes last."""
        cdef Held held
        cdef set reached
        self.untried = self.untried or len(self.dying)
        tried = list(islice(self.dying, min(self.untried, RETRIES_MAX)))
        self.untried -= len(tried)
        self.budget -= <int>len(tried)
        if self.dying:
            self.alarm.set(now_ms if self.untried else now_ms + RETRY_MS)
        for held in tried:
            reached = self.dying.pop(held)
            if held.state == BACKING_OFF and not (<Queue>held.queue).deleted:
                self.dying[held] = reached
                self.graves.append((held.queue, held, None, <uint8_t>(held.when_ms - HELD_DEAD_MS)))
        self.bury_all()

    def dead_letter(
        self, Queue queue not None, Message message not None, uint8_t reason, uint32_t deliveries=0, set reached=None,
    ) -> bool:
        """Publish a message again where its queue sends its dead; False: it is to be held until all targets take it.

        `reached` has the ids of the targets that took it before, and gets those that take it now.
        """
        cdef bint is_held = queue.is_quorum and queue.policy.holds_dead_letters
        cdef bint complete = True, found = False
        vhost = self.topology.vhost(queue.vhost)
        exchange = vhost.exchanges.get(queue.policy.dead_letter_exchange)
        if exchange is None:
            return not is_held
        properties = message.properties
        new_key = queue.policy.dead_letter_routing_key
        known, every = routing_keys(properties, message.routing_key)
        buried = deadletter.bury(
            properties, queue=queue.name, reason=REASONS[reason], exchange=message.exchange, routing_keys=known,
            now_ms=self.now_ms, keep_cc=new_key is None,
        )
        if message.seq:
            buried.headers.setdefault(ORIGIN, format_id(self.tag, message.seq))
        if deliveries:
            buried.headers[RECEIVED] = received_before(buried.headers) + deliveries
        key = message.routing_key if new_key is None else new_key
        keys = every if new_key is None else [key]
        targets = [
            target for target in vhost.route(exchange.name, keys, buried.headers)
            if not deadletter.forms_cycle(buried, target.name)
        ]
        copies = [(buried, targets)]
        if self.outbox is not None:
            copies += self.outbox(vhost.name, exchange.name, keys, buried, is_held)
        for carried, queues in copies:
            if queues:
                found = True
                content, header_len = make_content_of(carried, message.body)
                complete &= self.put_dead(
                    new_message(
                        route_of(exchange.name, key), content, header_len,
                        message.priority if properties.priority is None else properties.priority,
                        message.flags & (PERSISTENT | BLOB), 0, 0, group_of(buried.headers),
                    ),
                    queues, reached,
                )
        return not is_held or (found and complete)

    cdef bint put_dead(self, Message message, list targets, set reached) except -1:
        """Give a dead letter to those that take it and have not `reached` it before; say whether all have it."""
        cdef Queue target
        cdef list accepted = []
        cdef bint complete = True
        for target in targets:
            if reached is not None and target.id in reached:
                continue
            if target.recorder is not None:
                taken = self.record_dead(message, target)
            else:
                taken = not target.limited or not (too_large(target, message) or self.refuses(target, message))
                if taken:
                    accepted.append(target)
                complete &= taken
                continue
            complete &= taken
            if taken and reached is not None:
                reached.add(target.id)
        if accepted:
            self.put(message, accepted)
            if reached is not None:
                reached.update([(<Queue>each).id for each in accepted])
        return complete

    cdef bint record_dead(self, Message message, Queue target) except -1:
        """Give a dead letter to a stream; what its headers ask for may be something that a stream refuses."""
        try:
            self.place(message, [target])
        except (InvalidArgument, TooMany):
            target.counters.refused += 1
            return False
        return True


def received_before(dict headers) -> int:
    """How often a dead letter was delivered before it died."""
    count = headers.get(RECEIVED, 0)
    return count if isinstance(count, int) and 0 <= count < RECEIVED_MAX else 0


def routing_keys(properties, str routing_key) -> tuple[list[str], list[str]]:
    """The keys that a dead letter tells of, and those that it is routed by; a bad CC header must not stop its burial."""
    try:
        return deadletter.routing_keys_of(properties, routing_key), deadletter.all_keys(properties, routing_key)
    except InvalidArgument:
        return [routing_key], [routing_key]


cdef Message with_flags(Message message, uint8_t flags):
    """The same message with other flags, for a record of its own."""
    return new_message(
        message.route, message.content, message.header_len, message.priority, flags, message.expiry_ms, message.due_ms,
        message.group,
    )


cdef inline uint64_t body_bytes(Message message) noexcept:
    return len(message.content) - message.header_len


cdef inline uint64_t held_bytes(Held held) noexcept:
    return held.entry.place.size - min(held.entry.place.size, <uint32_t>held.entry.overhead)


cdef bint too_large(Queue queue, Message message) except -1:
    most = queue.policy.max_message_bytes
    return most is not None and body_bytes(message) > most


cdef int check_size(Queue queue, Message message) except -1:
    """Refuse what is over the size limit of a queue."""
    if too_large(queue, message):
        raise MessageTooLarge(
            f"message size {body_bytes(message)} is larger than configured max size {queue.policy.max_message_bytes} of "
            f"queue '{queue.name}'"
        )
    return 0


cdef int count_death(Queue queue, uint8_t reason) except -1:
    if reason == REJECTED:
        queue.counters.rejected += 1
    elif reason == EXPIRED:
        queue.counters.expired += 1
    elif reason == MAXLEN:
        queue.counters.maxlen += 1
    elif reason == DELIVERY_LIMIT:
        queue.counters.delivery_limit += 1
    else:
        queue.counters.dropped += 1
    return 0


def full(queue: Queue) -> QueueFull:
    """The refusal of a queue that is at its limit."""
    return QueueFull(
        f"queue '{queue.name}' holds {queue.depth} messages of {queue.depth_bytes} bytes, its limit: let consumers work, "
        "raise max_length, or choose overflow='drop-head'"
    )
