"""Deliveries of a channel that were made by another owner of their queues."""

from libc.stdint cimport uint64_t

from leveret.protocols.amqp.traffic cimport ChannelTraffic
from leveret.core.consumer cimport Consumer
from leveret.core.held cimport LEASED, Held
from leveret.core.queue cimport Queue


def take_up(ChannelTraffic channel not None, uint64_t tag, Held held not None) -> None:
    """Let a channel have a delivery; its tag is larger than all before it."""
    channel.unacked.push(tag, held)
    channel.last_tag = tag


def adopt(ChannelTraffic channel not None, Consumer consumer not None, list tags not None) -> None:
    """Let a consumer that goes on have what it was given; it is the active one, if one only can be and it was."""
    cdef Queue queue = <Queue>consumer.queue
    cdef Py_ssize_t index
    cdef Held held
    for tag in tags:
        index = channel.unacked.find(tag)
        held = None if index < 0 else <Held>channel.unacked.slots[index].held
        if held is None or held.state != LEASED or held.lease != channel.unacked.slots[index].lease:
            continue
        held.consumer = consumer
        consumer.unacked += 1
        channel.pushed += 1
    if queue.single_active and consumer.unacked and queue.active.unacked == 0:
        queue.active = consumer
