"""What methods of clients do on a node: those about messages ask the shard of a queue, the others are as elsewhere."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from leveret.cluster.proxy.shard_channel import ProxyConsumer, Reading, ShardChannel
from leveret.core.changes import DeleteQueue
from leveret.core.queue_types import STREAM
from leveret.protocols.amqp.channel import HANDLERS as SINGLE
from leveret.protocols.amqp.handlers import basic
from leveret.protocols.amqp.handlers.queue import note_purge
from leveret.protocols.amqp.names import REPLY_TO
from leveret.protocols.amqp.transaction import REQUEUED
from leveret.wire import methods
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.cluster.proxy.channel import ProxyChannel
    from leveret.protocols.amqp.channel import Handlers


def consume(channel: ProxyChannel, method: methods.BasicConsume) -> None:
    """Push the messages of a queue from now on."""
    tag = basic.new_tag(channel, method)
    if method.queue == REPLY_TO:
        basic.consume_replies(channel, method, tag)
        return
    queue = basic.consumed_queue(channel, method)
    name, policy = queue.name, queue.policy
    reading = Reading(method.arguments, policy.partitions) if policy.queue_type == STREAM else None
    shard_channel = channel.consumers[tag] = channel.shard_channel(name)
    asked = replace(method, queue=name, consumer_tag=tag, nowait=False)
    begun = channel.awaited(lambda _: channel.answer(method.nowait, methods.BasicConsumeOk(tag)))
    shard_channel.consume(ProxyConsumer(asked, channel.consumer_prefetch, reading), begun)


def cancel(channel: ProxyChannel, method: methods.BasicCancel) -> None:
    """Stop pushing; an unknown consumer is no error, since the server may have cancelled it just now."""
    tag = method.consumer_tag
    shard_channel = channel.consumers.pop(tag, None)
    if shard_channel is None:
        channel.remove_consumer(tag)
        channel.answer(method.nowait, methods.BasicCancelOk(tag))
        return

    def cancelled(_: methods.BasicCancelOk) -> None:
        shard_channel.consumers.pop(tag, None)
        channel.answer(method.nowait, methods.BasicCancelOk(tag))

    channel.ask(shard_channel, methods.BasicCancel(tag, False), cancelled)


def get(channel: ProxyChannel, method: methods.BasicGet) -> None:
    """Give one message."""
    name = channel.queue_name(method.queue)
    channel.authorize("basic.get", {"queue": name})
    channel.queue(name)
    channel.getting_without_ack, channel.getting_from = method.no_ack, name

    def given(answer: methods.Method) -> None:
        if not hasattr(answer, "delivery_tag"):  # a message is handed out when its content is here
            channel.empty_gets += 1
            channel.say(answer)

    channel.ask(channel.shard_channel(name), methods.BasicGet(name, method.no_ack), given)


def purge(channel: ProxyChannel, method: methods.QueuePurge) -> None:
    """Drop what waits in a queue."""
    name = channel.queue_name(method.queue)
    channel.authorize("queue.purge", {"queue": name})
    channel.queue(name)

    def purged(answer: methods.QueuePurgeOk) -> None:
        note_purge(channel, name, answer.message_count)
        channel.answer(method.nowait, answer)

    channel.ask(channel.shard_channel(name), methods.QueuePurge(name), purged)


def delete(channel: ProxyChannel, method: methods.QueueDelete) -> None:
    """Delete a queue, in its shard and then in the catalog; a missing one is no error."""
    name = channel.queue_name(method.queue)
    channel.authorize("queue.delete", {"queue": name})
    if name not in channel.virtual_host.queues:
        channel.answer(method.nowait, methods.QueueDeleteOk(0))
        return
    channel.queue(name)

    def deleted(answer: methods.QueueDeleteOk) -> None:
        channel.note("queue.delete", {"queue": name, "count": answer.message_count})
        channel.change(DeleteQueue(channel.vhost, name), lambda _: channel.answer(method.nowait, answer))

    channel.ask(channel.shard_channel(name), methods.QueueDelete(name, method.if_unused, method.if_empty), deleted)


def recover(channel: ProxyChannel, method: methods.BasicRecover | methods.BasicRecoverAsync) -> None:
    """Deliver again what was not settled; recover-async is not answered."""
    if not method.requeue:
        raise ProtocolError(Reply.NOT_IMPLEMENTED, "requeue=false")

    def then() -> None:
        channel.answer(isinstance(method, methods.BasicRecoverAsync), methods.BasicRecoverOk())

    kept = channel.transaction.settled if channel.transaction is not None else ()
    if kept:
        for tag in [each for each in channel.tags.tags(channel.last_tag) if each not in kept]:
            channel.settle_now(tag, REQUEUED)
        then()
        return
    left = set(channel.shard_channels.values())

    def recovered(shard_channel: ShardChannel, _: methods.Method) -> None:
        channel.tags.take_back(shard_channel)  # with what was on its way when the shard processed it
        left.discard(shard_channel)
        if not left:
            then()

    for shard_channel in tuple(left):
        shard_channel.shard_connection.learn_names()  # the shard has none of them any more when it loses its owner
        channel.tags.name(shard_channel, shard_channel.names)
        channel.ask(shard_channel, methods.BasicRecover(True), partial(recovered, shard_channel))
    if not left:
        then()


def close(channel: ProxyChannel, method: methods.ChannelClose) -> None:
    """The client is done with the channel: it is told so when every shard has taken back what it holds."""
    if not channel.deaf:
        channel.release()
        channel.forget()
        channel.proxy.when_closed(channel.number, lambda: channel.proxy.say(methods.ChannelCloseOk(), channel.number))
    else:
        channel.say(methods.ChannelCloseOk())


def commit(channel: ProxyChannel, method: methods.TxCommit) -> None:
    """Do what was collected; the answer says that every shard has it on its disks."""
    if channel.transaction is None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "channel is not transactional")
    channel.transaction.commit()
    channel.when_safe(lambda: channel.say(methods.TxCommitOk()))


HANDLERS: Handlers = {
    **SINGLE,
    methods.BasicConsume: consume,
    methods.BasicCancel: cancel,
    methods.BasicGet: get,
    methods.BasicRecover: recover,
    methods.BasicRecoverAsync: recover,
    methods.ChannelClose: close,
    methods.QueueDelete: delete,
    methods.QueuePurge: purge,
    methods.TxCommit: commit,
}
