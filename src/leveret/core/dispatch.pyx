"""Pushing to consumers: who gets the next message of a queue.

The highest priority among those that can take more; in turn among equals; with single active consumer only one of
them, until it leaves.
"""

from libc.stdint cimport uint64_t

from leveret.core.consumer cimport Consumer
from leveret.core.errors import AccessRefused, TooMany
from leveret.core.expiry cimport set_timer
from leveret.core.held cimport Held, LEASED
from leveret.core.ports cimport ACKED, REQUEUED
from leveret.core.queue cimport Queue

CONSUMERS_PER_QUEUE_MAX = 10_000    # each message looks at every consumer that cannot take more


def subscribe(Queue queue not None, Consumer consumer not None) -> None:
    """Start pushing to a consumer."""
    others = queue.consumers or []
    if others and (consumer.exclusive or others[0].exclusive):
        raise AccessRefused(f"queue '{queue.name}' in vhost '{queue.vhost}' in exclusive use")
    if len(others) >= CONSUMERS_PER_QUEUE_MAX:
        raise TooMany(f"queue '{queue.name}' has {CONSUMERS_PER_QUEUE_MAX} consumers: use fewer, with a larger prefetch")
    consumer.queue = queue
    consumer.id = queue.engine.consumer_number(consumer.tag)
    queue.consumers = sorted([*others, consumer], key=by_priority)
    queue.use()
    if queue.depth:
        queue.signal()


def by_priority(consumer: Consumer) -> int:
    """Highest first; equals stay in the order in which they came."""
    return -consumer.priority


def unsubscribe(Queue queue not None, Consumer consumer not None) -> None:
    """Stop pushing to a consumer; what it holds stays its own until it is settled or requeued."""
    queue.consumers = [other for other in queue.consumers or [] if other is not consumer]
    queue.use()
    if queue.expires_ms:
        set_timer(queue, queue.used_ms + queue.expires_ms)
    if queue.active is consumer:
        queue.active = None
    if queue.depth:
        queue.signal()


def requeue(Queue queue not None, Consumer consumer not None) -> None:
    """Give back everything that a consumer holds: it has gone."""
    for held in [each for each in (queue.held or {}).values() if each.consumer is consumer and each.state == LEASED]:
        queue.give_back(<Held>held, REQUEUED, 0)


def pump(Queue queue not None) -> int:
    """Push as long as there is a message and somebody to take it; give the number pushed."""
    cdef Consumer consumer
    cdef Held held
    cdef int pushed = 0
    cdef uint64_t until_ms
    while queue.depth and queue.consumers:
        consumer = eligible(queue)
        if consumer is None:
            break
        held = queue.next()
        if held is None:
            break
        until_ms = queue.policy.consumer_timeout_ms or 0
        queue.lease(held, queue.engine.now_ms + until_ms if until_ms and not consumer.no_ack else 0, consumer)
        consumer.unacked += 1
        consumer.deliver(held)
        pushed += 1
        if consumer.no_ack:
            queue.counters.acked += 1
            queue.settle(held, ACKED)
    return pushed


cdef Consumer eligible(Queue queue):
    """The consumer whose turn it is, or None."""
    cdef Consumer consumer
    cdef Py_ssize_t i, count = len(queue.consumers), start
    if queue.policy.single_active_consumer:
        if queue.active is None:
            queue.active = queue.consumers[0]
        return queue.active if queue.active.can_take() else None
    start = queue.turn % count
    best = None
    for i in range(count):
        consumer = <Consumer>queue.consumers[(start + i) % count]
        if consumer.can_take() and (best is None or consumer.priority > (<Consumer>best).priority):
            best = consumer
            queue.turn = (start + i + 1) % count
    return best
