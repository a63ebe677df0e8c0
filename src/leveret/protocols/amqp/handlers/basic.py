"""basic.*: what is not about the messages themselves: qos, consume, cancel, get, recover."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core import consumer_arguments
from leveret.core.consumer_arguments import stream_place
from leveret.core.errors import NotSupported, PreconditionFailed, TooMany
from leveret.core.names import described
from leveret.core.queue import Queue
from leveret.core.queue_types import check_get
from leveret.core.streams import Recorder, StreamCursor
from leveret.protocols.amqp.names import REPLY_TO, consumer_tag
from leveret.protocols.amqp.replying import ReplyConsumer
from leveret.protocols.amqp.subscriber import StreamSubscriber, Subscriber
from leveret.wire import methods
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers


def qos(channel: Channel, method: methods.BasicQos) -> None:
    """Limit what is pushed and not settled: by each consumer that starts from now on, or by all of them together."""
    if method.prefetch_size:
        raise ProtocolError(Reply.NOT_IMPLEMENTED, f"prefetch_size!=0 ({method.prefetch_size})")
    if method.global_qos:
        channel.limit(method.prefetch_count)
    else:
        channel.consumer_prefetch = method.prefetch_count
    channel.say(methods.BasicQosOk())


def consume(channel: Channel, method: methods.BasicConsume) -> None:
    """Push the messages of a queue from now on."""
    tag = new_tag(channel, method)
    if method.queue == REPLY_TO:
        consume_replies(channel, method, tag)
        return
    source = consumed_queue(channel, method)
    if source.recorder is not None:
        consume_stream(channel, method, source, source.recorder, tag)
    else:
        asked = consumer_arguments.parse(source, method.arguments)
        subscriber = Subscriber(
            channel,
            tag,
            prefetch=channel.consumer_prefetch,
            priority=asked.priority,
            exclusive=method.exclusive,
            no_ack=method.no_ack,
            name=channel.connection.consumer_name,
            timeout_ms=asked.timeout_ms,
        )
        channel.add_consumer(subscriber, source)
    # Written before the lock is let go, and only then the queue begins to push.
    channel.answer(method.nowait, methods.BasicConsumeOk(tag))


def new_tag(channel: Channel, method: methods.BasicConsume) -> str:
    """The tag of a consumer that is to begin."""
    tag = method.consumer_tag or consumer_tag()
    if channel.has_consumer(tag):
        raise ProtocolError(Reply.NOT_ALLOWED, f"attempt to reuse consumer tag '{tag}'")
    if channel.consumer_count >= channel.hub.limits.consumers_per_channel_max:
        raise TooMany(f"the channel has {channel.consumer_count} consumers: cancel some, or open another channel")
    return tag


def consumed_queue(channel: Channel, method: methods.BasicConsume) -> Queue:
    """The queue that it wants to consume, if it may."""
    name = channel.queue_name(method.queue)
    channel.authorize("basic.consume", {"queue": name})
    return channel.queue(name)


def consume_replies(channel: Channel, method: methods.BasicConsume, tag: str) -> None:
    """Take replies to requests of this channel."""
    if not method.no_ack:
        raise PreconditionFailed("reply consumer cannot acknowledge")
    if channel.reply_consumer is not None:
        raise PreconditionFailed("reply consumer already set")
    channel.reply_consumer = consumer = ReplyConsumer(channel, tag)
    channel.hub.replies.add(consumer)
    channel.answer(method.nowait, methods.BasicConsumeOk(tag))


def cancel(channel: Channel, method: methods.BasicCancel) -> None:
    """Stop pushing; an unknown consumer is no error, since the server may have cancelled it just now."""
    channel.remove_consumer(method.consumer_tag)
    channel.answer(method.nowait, methods.BasicCancelOk(method.consumer_tag))


def get(channel: Channel, method: methods.BasicGet) -> None:
    """Give one message."""
    name = channel.queue_name(method.queue)
    channel.authorize("basic.get", {"queue": name})
    source = channel.queue(name)
    check_get(source)
    if not channel.get(source, method.no_ack):
        channel.empty_gets += 1
        channel.say(methods.BasicGetEmpty())


def recover(channel: Channel, method: methods.BasicRecover | methods.BasicRecoverAsync) -> None:
    """Deliver again what was not settled; recover-async is not answered."""
    if not method.requeue:
        raise ProtocolError(Reply.NOT_IMPLEMENTED, "requeue=false")
    channel.requeue_all(channel.transaction.settled if channel.transaction is not None else frozenset())
    channel.answer(isinstance(method, methods.BasicRecoverAsync), methods.BasicRecoverOk())


HANDLERS: Handlers = {
    methods.BasicQos: qos,
    methods.BasicConsume: consume,
    methods.BasicCancel: cancel,
    methods.BasicGet: get,
    methods.BasicRecover: recover,
    methods.BasicRecoverAsync: recover,
}


def consume_stream(channel: Channel, method: methods.BasicConsume, source: Queue, recorder: Recorder, tag: str) -> None:
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


def _cursors(method: methods.BasicConsume, source: Queue, recorder: Recorder, now_ms: int) -> list[StreamCursor]:
    """Where the consumer begins: a place in each partition, or in the one that it asked for."""
    place = stream_place(source, method.arguments)
    partitions = range(recorder.partitions) if place.partition is None else [place.partition]
    return [
        recorder.cursor(partition, place.offsets[partition], now_ms, place.wanted, place.match_unfiltered)
        for partition in partitions
    ]
