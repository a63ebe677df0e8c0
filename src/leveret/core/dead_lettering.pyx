"""Dead-lettering: a message that a queue rejects, expires or drops is published again to the queue's dead-letter exchange.

With the strategy at-least-once, a dead letter that not all of its targets have stays in its queue, where no consumer
gets it, and is published again later. `Callbacks` is what queues ask of their broker: it passes that on to the part that
does it, and removes what has expired.
"""

from collections import deque
from heapq import heappop
from itertools import islice

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leveret.core import deadletter
from leveret.core.dispatch import pump
from leveret.core.engine cimport Engine, QueueCallbacks
from leveret.core.errors import InvalidArgument, JournalFailed, TooMany
from leveret.core.expiries cimport head_expiry
from leveret.core.held cimport BACKING_OFF, DONE, HELD_DEAD_MS, SCHEDULED, Held, Holder
from leveret.core.ids import format_id
from leveret.core.lane cimport Lane
from leveret.core.message cimport BLOB, PERSISTENT, Message, new_message
from leveret.core.ports cimport DELAYED, DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, RETIRED, Entry
from leveret.core.properties import content as make_content_of
from leveret.core.publish import group_of, route_of
from leveret.core.publish cimport Publisher, too_large
from leveret.core.queue cimport Queue
from leveret.core.ready cimport Level
from leveret.core.timers import Alarm

cdef uint64_t NEVER = 0xFFFFFFFFFFFFFFFF

REASONS = {REJECTED: "rejected", EXPIRED: "expired", MAXLEN: "maxlen", DELIVERY_LIMIT: "delivery_limit"}
RETRY_MS = 180_000          # until a held dead letter is tried again, as in RabbitMQ
RETRY_SOON_MS = 1_000       # after a change of definitions, of which many may come together
RETRIES_MAX = 1_000         # at a time


cdef class DeadLetters:
    """Publishes dead letters."""

    cdef readonly Engine engine
    cdef readonly Publisher publisher
    cdef object topology
    cdef public object outbox  # type: Outbox | None  # gets the dead letters for queues of other brokers, or None
    cdef object pending                 # dead, and not published again yet
    cdef bint is_publishing
    cdef readonly dict held  # type: dict[Held, set[int]]  # ids of the targets that have it: waiting for the others
    cdef Py_ssize_t untried             # how many of them this pass has not tried yet
    cdef object alarm                   # when they are tried again

    def __init__(self, Publisher publisher not None, topology: "Topology") -> None:
        self.publisher = publisher
        self.engine = publisher.engine
        self.topology = topology
        self.pending = deque()
        self.held = {}
        self.alarm = Alarm(self.engine.timers, self.retry)

    cdef int dead(self, Queue queue, Held held, uint8_t reason) except -1:
        """Settle a message, and publish it again: both are in one commit batch, so that neither is without the other."""
        count_death(queue, reason)
        if reason == RETIRED or queue.policy.dead_letter_exchange is None:
            return queue.settle(held, reason)
        self.pending.append((queue, held, None, reason))
        return self.publish_pending()

    cdef int overflowed(self, Queue queue, Message message) except -1:
        """Publish again what a full queue refused."""
        queue.counters.maxlen += 1
        self.pending.append((queue, None, message, MAXLEN))
        return self.publish_pending()

    cdef int publish_pending(self) except -1:
        """Dead-letter what has died, and what dies of that: one after the other, since a chain of full queues is long."""
        cdef Held held
        if self.is_publishing:
            return 0
        self.is_publishing = True
        try:
            while self.pending:
                queue, held, message, reason = self.pending.popleft()
                if held is None:
                    self.dead_letter(queue, message, reason)
                elif held.state != DONE and not (held in self.held and (<Queue>queue).deleted):
                    message = held.content if held.content is not None else self.engine.journal.read(&held.entry)
                    reached = self.held.get(held, set())
                    if not self.dead_letter(queue, message, reason, held.entry.deliveries, reached):
                        self.hold(queue, held, reason)
                        self.held[held] = reached
                        continue
                    if self.held.pop(held, None) is not None:
                        (<Queue>queue).dlx -= 1
                        (<Queue>queue).dlx_bytes -= held_bytes(held)
                    (<Queue>queue).settle(held, reason)
        finally:
            self.is_publishing = False
        return 0

    cdef int hold(self, Queue queue, Held held, uint8_t reason) except -1:
        """Keep a dead letter in its queue, where no consumer gets it, until all of its targets have it."""
        cdef uint64_t held_ms = min(self.engine.now_ms - min(self.engine.now_ms, held.delivered_ms), <uint64_t>0xFFFFFFFF)
        cdef bint busy = held.group != 0 and held.state != SCHEDULED
        if held in self.held:
            return 0
        if held.entry.place.segment:
            self.engine.journal.returned(
                queue.id, &held.entry, DELAYED, self.engine.now_ms, HELD_DEAD_MS + reason, <uint32_t>held_ms,
                queue.consumer_id(held.consumer),
            )
        queue.end_lease(held)
        if busy:
            queue.ready.release(held)
            queue.signal()
        held.group = held.lease = 0
        held.consumer = None
        held.state = BACKING_OFF
        held.when_ms = HELD_DEAD_MS + reason
        self.note_held(held)
        return 0

    def note_held(self, Held held not None) -> None:
        """Try a held dead letter again later."""
        cdef Queue queue = <Queue>held.queue
        queue.dlx += 1
        queue.dlx_bytes += held_bytes(held)
        self.held[held] = set()
        if len(self.held) == 1:
            self.alarm.set(self.engine.now_ms + RETRY_MS)

    def find_held(self, queues: dict[int, Queue]) -> None:
        """Find the dead letters that are held, after a restart, and try them soon."""
        cdef Queue queue
        cdef Held held
        for queue in queues.values():
            for held in list((queue.held or {}).values()) if queue.is_quorum else ():
                if held.state == BACKING_OFF and held.when_ms >= HELD_DEAD_MS:
                    self.note_held(held)
        self.retry_soon()

    def retry_soon(self) -> None:
        """Definitions changed: held dead letters may have a route now."""
        if self.held and self.alarm.when_ms > self.engine.now_ms + RETRY_SOON_MS:
            self.alarm.set(self.engine.now_ms + RETRY_SOON_MS)

    def retry(self, uint64_t now_ms) -> None:
        """Try held dead letters again, some at a time, the one that was tried last comes last."""
        cdef Held held
        cdef set reached
        self.untried = self.untried or len(self.held)
        tried = list(islice(self.held, min(self.untried, RETRIES_MAX)))
        self.untried -= len(tried)
        self.engine.budget -= <int>len(tried)
        if self.held:
            self.alarm.set(now_ms if self.untried else now_ms + RETRY_MS)
        for held in tried:
            reached = self.held.pop(held)
            if held.state == BACKING_OFF and not (<Queue>held.queue).deleted:
                self.held[held] = reached
                self.pending.append((held.queue, held, None, <uint8_t>(held.when_ms - HELD_DEAD_MS)))
        self.publish_pending()

    def dead_letter(
        self, Queue queue not None, Message message not None, uint8_t reason, uint32_t deliveries=0,
        reached: set[int] | None = None,
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
        dead_lettered = deadletter.dead_letter(
            properties, queue=queue.name, reason=REASONS[reason], exchange=message.exchange, routing_keys=known,
            now_ms=self.engine.now_ms, keep_cc=new_key is None,
        )
        if message.seq:
            dead_lettered.headers.setdefault(deadletter.ORIGIN, format_id(self.engine.tag, message.seq))
        if deliveries:
            dead_lettered.headers[deadletter.RECEIVED] = deadletter.received_before(dead_lettered.headers) + deliveries
        key = message.routing_key if new_key is None else new_key
        keys = every if new_key is None else [key]
        targets = [
            target for target in vhost.route(exchange.name, keys, dead_lettered.headers)
            if not deadletter.forms_cycle(dead_lettered, target.name)
        ]
        copies = [(dead_lettered, targets)]
        if self.outbox is not None:
            copies += self.outbox(vhost.name, exchange.name, keys, dead_lettered, is_held)
        for carried, queues in copies:
            if queues:
                found = True
                content, header_len = make_content_of(carried, message.body)
                complete &= self.put(
                    new_message(
                        route_of(exchange.name, key), content, header_len,
                        message.priority if properties.priority is None else properties.priority,
                        message.flags & (PERSISTENT | BLOB), 0, 0, group_of(dead_lettered.headers),
                    ),
                    queues, reached,
                )
        return not is_held or (found and complete)

    cdef bint put(self, Message message, list targets, set reached) except -1:
        """Give a dead letter to those that take it and have not `reached` it before; say whether all have it."""
        cdef Queue target
        cdef list accepted = []
        cdef bint complete = True
        for target in targets:
            if reached is not None and target.id in reached:
                continue
            if target.recorder is not None:
                taken = self.record(message, target)
            else:
                taken = not target.limited or not (too_large(target, message) or self.publisher.refuses(target, message))
                if taken:
                    accepted.append(target)
                complete &= taken
                continue
            complete &= taken
            if taken and reached is not None:
                reached.add(target.id)
        if accepted:
            self.publisher.put(message, accepted)
            if reached is not None:
                reached.update([(<Queue>each).id for each in accepted])
        return complete

    cdef bint record(self, Message message, Queue target) except -1:
        """Give a dead letter to a stream; what its headers ask for may be something that a stream refuses."""
        try:
            self.publisher.place(message, [target])
        except (InvalidArgument, TooMany):
            target.counters.refused += 1
            return False
        return True


def routing_keys(properties, str routing_key) -> tuple[list[str], list[str]]:
    """The keys that a dead letter tells of, and those that it is routed by; a bad CC header must not stop that."""
    try:
        return deadletter.routing_keys_of(properties, routing_key), deadletter.all_keys(properties, routing_key)
    except InvalidArgument:
        return [routing_key], [routing_key]


cdef inline uint64_t held_bytes(Held held) noexcept:
    return held.entry.place.size - min(held.entry.place.size, <uint32_t>held.entry.overhead)


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


cdef class Callbacks(QueueCallbacks):
    """See QueueCallbacks; `delete_unused` is called with a queue that expired or whose last consumer left."""

    cdef DeadLetters dead_letters
    cdef object delete_unused

    def __init__(self, DeadLetters dead_letters not None, delete_unused: Callable[[Queue], None]) -> None:
        self.dead_letters = dead_letters
        self.delete_unused = delete_unused

    cdef int dead(self, Holder queue, Held held, uint8_t reason) except -1:
        return self.dead_letters.dead(<Queue>queue, held, reason)

    cdef int overflowed(self, Holder queue, Message message) except -1:
        return self.dead_letters.overflowed(<Queue>queue, message)

    cdef int push(self, Holder queue) except -1:
        """See QueueCallbacks; a message that cannot be delivered is no error of the publisher."""
        try:
            pump(queue)
        except JournalFailed:
            raise
        except Exception:
            (<Queue>queue).signal()     # it is tried again, and then the caller of take_dirty gets the error
        return 0

    cdef int expire(self, Holder queue) except -1:
        return expire(<Queue>queue)

    cdef int unused(self, Holder queue) except -1:
        self.delete_unused(queue)
        return 0


cdef int expire(Queue queue) except -1:
    """Remove what has expired; see when to look again."""
    cdef uint64_t now = queue.engine.now_ms, next_ms
    if queue.expires_ms and not queue.consumers and queue.used_ms + queue.expires_ms <= now:
        return queue.engine.callbacks.unused(queue)
    try:
        return expire_messages(queue)
    finally:
        # Also after one that could not be read: those behind it expire all the same.
        next_ms = head_expiry(queue.ready)
        if queue.expiries is not None and queue.expiries.heap:
            next_ms = min(next_ms, <uint64_t>queue.expiries.heap[0][0])
        if queue.expires_ms:
            # The last consumer that leaves starts the time of the queue anew.
            next_ms = min(next_ms, (now if queue.consumers else queue.used_ms) + queue.expires_ms)
        if next_ms != NEVER:
            queue.wake(next_ms)


cdef int expire_messages(Queue queue) except -1:
    """Remove messages that have expired, as far as the tick's budget goes."""
    cdef Entry entry
    cdef Lane lane
    cdef Held held
    cdef uint64_t now = queue.engine.now_ms
    while queue.engine.budget > 0 and queue.expiries is not None and queue.expiries.heap:
        if queue.expiries.heap[0][0] > now:
            break
        _, seq, priority, group = heappop(queue.expiries.heap)
        held = queue.remove(seq, priority, group)
        queue.engine.budget -= 1
        if held is not None:
            queue.engine.callbacks.dead(queue, held, queue.expiry_reason(held))
    if queue.ready is None:
        return 0
    for level in list(queue.ready.levels):
        lane = None if level is None else (<Level>level).plain.lane
        while queue.engine.budget > 0 and lane is not None and lane.peek(&entry):
            if entry.expiry_ms == 0 or entry.expiry_ms > now:
                break
            queue.engine.budget -= 1
            held = queue.remove(entry.seq, entry.priority, 0)
            queue.engine.callbacks.dead(queue, held, queue.expiry_reason(held))
    return 0
