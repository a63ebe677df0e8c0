"""Pushing to consumers: who gets the next message of a queue.

The highest priority among those that can take more; in turn among equals; with single active consumer only one of
them, the one that came first, until it leaves. Then it is the one of the highest priority; in a quorum queue such a one
takes over earlier, as soon as the active one has settled what it holds.
"""

from bisect import insort

from libc.stdint cimport int64_t, uint32_t, uint64_t

from leveret.core.consumer cimport Consumer
from leveret.core.errors import AccessRefused, TooMany
from leveret.core.held cimport Held, LEASED
from leveret.core.message cimport BLOB
from leveret.core.ports cimport AUTO_ACKED, READ, REQUEUED
from leveret.core.queue cimport Queue

cdef enum:
    RETRY_MS = 1_000    # after a delivery failed

CONSUMERS_PER_QUEUE_MAX = 10_000    # each message looks at every consumer that cannot take more


def subscribe(Queue queue not None, Consumer consumer not None) -> None:
    others = queue.consumers or []
    if (consumer.exclusive and (others or queue.single_active)) or (others and others[0].exclusive):
        raise in_exclusive_use(queue)
    if len(others) >= CONSUMERS_PER_QUEUE_MAX:
        raise TooMany(f"queue '{queue.name}' has {CONSUMERS_PER_QUEUE_MAX} consumers: use fewer, with a larger prefetch")
    consumer.queue = queue
    consumer.id = queue.engine.consumer_number(consumer.name)
    consumers = [*others]
    insort(consumers, consumer, key=by_priority)
    queue.consumers = consumers
    consumer.active_ms = queue.engine.now_ms
    if queue.single_active and queue.active is None:
        queue.active = consumer
    queue.use()
    if queue.depth:
        queue.signal()


def in_exclusive_use(Queue queue not None) -> AccessRefused:
    """That another consumer has exclusive use of a queue."""
    return AccessRefused(f"queue '{queue.name}' in vhost '{queue.vhost}' in exclusive use")


def activate(Queue queue not None, Consumer consumer not None) -> None:
    """Let a consumer be the active one, though others came before it."""
    queue.active = consumer


def by_priority(consumer: Consumer) -> int:
    """Highest first; equals stay in the order in which they came."""
    return -consumer.priority


def unsubscribe(Queue queue not None, Consumer consumer not None) -> None:
    """Stop pushing to a consumer; what it holds stays its own until it is settled or requeued."""
    queue.consumers = [other for other in queue.consumers or [] if other is not consumer]
    queue.use()
    if queue.expires_ms:
        queue.wake(queue.used_ms + queue.expires_ms)
    if queue.active is consumer:
        queue.active = queue.consumers[0] if queue.consumers else None
    if queue.auto_delete and not queue.consumers:
        queue.engine.callbacks.unused(queue)
        return
    if queue.depth:
        queue.signal()


def requeue(Queue queue not None, Consumer consumer not None) -> None:
    """Requeue everything that a consumer holds: it was cancelled."""
    for held in [each for each in (queue.held or {}).values() if each.consumer is consumer and each.state == LEASED]:
        queue.give_back(<Held>held, REQUEUED, 0)


def pump(Queue queue not None) -> int:
    """Push as long as there is a message and a consumer to take it; give the number pushed."""
    cdef Consumer consumer
    cdef Held held
    cdef int pushed = 0
    if queue.recorder is not None:
        return feed(queue)
    while queue.consumers and queue.ready is not None and queue.ready.length:
        consumer = eligible(queue)
        if consumer is None:
            break
        held = queue.next()
        if held is None:
            break
        if held.entry.flags & BLOB and not consumer.ready_for(held):
            consumer.blocked = True
            queue.put_back(held)
            continue
        push(queue, consumer, held)
        pushed += 1
    return pushed


cdef int feed(Queue queue) except -1:
    """Let the consumers of a stream read on, each from its own place; one that fails does not hold up the others."""
    cdef int pushed = 0, count
    problem = None
    consumers = [] if queue.paused else queue.consumers or []
    if queue.single_active and consumers:
        if queue.active is None:
            queue.active = consumers[0]
        consumers = [queue.active]
    for consumer in consumers:
        try:
            count = (<Consumer>consumer).pull()
            pushed += count
            if count:
                (<Consumer>consumer).active_ms = queue.engine.now_ms
                note_read(queue, count, (<Consumer>consumer).id)
        except Exception as error:
            problem = error
    queue.counters.pushed += pushed
    if problem is not None:
        raise problem
    return pushed


cpdef int note_read(Queue queue, uint64_t count, uint32_t consumer=0) except -1:
    """Count records of a stream that a reader got."""
    cdef uint64_t each
    if queue.engine.journal.history:
        for each in range(1, count + 1):
            queue.engine.journal.noted(
                READ, 0, queue.id, queue.counters.delivered + each, queue.engine.now_ms, 0, consumer
            )
    queue.counters.delivered += count
    return 0


cdef int push(Queue queue, Consumer consumer, Held held) except -1:
    """Hand a message to a consumer; if that fails it comes back after a while, and the caller hears why."""
    cdef uint64_t until_ms = 0
    if consumer.opens:
        queue.open_held(held)
    if queue.consumer_timeout_ms and consumer.timed and not consumer.no_ack:
        until_ms = queue.engine.now_ms + queue.consumer_timeout_ms
    queue.lease(held, until_ms, consumer)
    consumer.unacked += 1
    consumer.active_ms = queue.engine.now_ms
    try:
        consumer.deliver(held)
    except BaseException:
        # Not at once: it would be tried, and journaled, in every turn, and all behind it would wait.
        queue.give_back(held, REQUEUED, queue.engine.now_ms + RETRY_MS)
        raise
    queue.counters.pushed += 1
    if consumer.no_ack:
        queue.counters.pushed_settled += 1
        queue.counters.acked += 1
        queue.settle(held, AUTO_ACKED)
    return 0


cdef Consumer eligible(Queue queue):
    """The consumer whose turn it is, or None."""
    cdef Consumer consumer, best = None
    cdef list consumers = queue.consumers
    cdef Py_ssize_t i, count = len(consumers), start
    cdef int64_t highest
    if queue.single_active:
        return active(queue, <Consumer>consumers[0])
    if count == 1:
        consumer = <Consumer>consumers[0]
        return consumer if consumer.can_take() else None
    start = queue.turn % count
    highest = (<Consumer>consumers[0]).priority
    for i in range(count):
        consumer = <Consumer>consumers[(start + i) % count]
        if consumer.can_take() and (best is None or consumer.priority > best.priority):
            best = consumer
            queue.turn = (start + i + 1) % count
            if best.priority == highest:
                break
    return best


cdef Consumer active(Queue queue, Consumer highest):
    """The single active consumer, if it can take more."""
    if highest.priority > queue.active.priority and queue.policy.queue_type == "quorum":
        if queue.active.unacked:
            return None
        queue.active = highest
    return queue.active if queue.active.can_take() else None
