"""basic.consume of a stream: the consumer reads for itself, from a place that it chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core.consumer_arguments import stream_place
from leveret.core.errors import NotSupported, PreconditionFailed
from leveret.core.names import described
from leveret.core.queue import Queue
from leveret.core.streams import Recorder, StreamCursor
from leveret.protocols.amqp.methods import BasicConsume
from leveret.protocols.amqp.stream_subscriber import StreamSubscriber

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel


def consume_stream(channel: Channel, method: BasicConsume, source: Queue, recorder: Recorder, tag: str) -> None:
    """Let a consumer read a stream: as many records at a time as it acknowledges."""
    where = described("queue", source.name, source.vhost)
    if channel.consumer_prefetch == 0:
        raise PreconditionFailed(f"consumer prefetch count is not set for stream {where}")
    if method.no_ack:
        raise NotSupported(f"automatic acknowledgement not supported by stream {where}")
    if channel.prefetch:
        raise NotSupported(f"{where} does not support global qos")
    cursors = _cursors(method, source, recorder, channel.core.now_ms)
    subscriber = StreamSubscriber(
        channel,
        tag,
        cursors,
        partitioned=source.policy.partitions > 1,
        prefetch=channel.consumer_prefetch,
        exclusive=method.exclusive,
        name=channel.connection.consumer_name,
    )
    try:
        channel.add_consumer(subscriber, source)
    except BaseException:
        subscriber.close()
        raise


def _cursors(method: BasicConsume, source: Queue, recorder: Recorder, now_ms: int) -> list[StreamCursor]:
    """Where the consumer begins: a place in each partition, or in the one that it asked for."""
    place = stream_place(source, method.arguments)
    partitions = range(recorder.partitions) if place.partition is None else [place.partition]
    return [
        recorder.cursor(partition, place.offsets[partition], now_ms, place.wanted, place.match_unfiltered)
        for partition in partitions
    ]
