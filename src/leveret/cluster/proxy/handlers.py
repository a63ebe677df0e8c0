"""What methods of clients do on a node: those about messages ask the shard of a queue, the others are as elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from leveret.cluster.proxy.reading import Reading
from leveret.cluster.proxy.shard_channel import ProxyConsumer, ShardChannel
from leveret.core.changes import DeleteQueue
from leveret.core.queue_types import STREAM
from leveret.protocols.amqp.channel import HANDLERS as SINGLE
from leveret.protocols.amqp.handlers import basic
from leveret.protocols.amqp.handlers.queue import note_purge
from leveret.protocols.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    ChannelClose,
    ChannelCloseOk,
    Method,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.protocols.amqp.names import REPLY_TO
from leveret.protocols.amqp.replies import ProtocolError, Reply
from leveret.protocols.amqp.transaction import REQUEUED, Transaction

if TYPE_CHECKING:
    from leveret.cluster.proxy.channel import ProxyChannel
    from leveret.protocols.amqp.channel import Handlers


class ProxyTransaction(Transaction):
    """The open transaction of a channel: collected on its node, done by the shards, each its part."""

    def __init__(self, channel: ProxyChannel) -> None:
        super().__init__(channel)
        self._proxy = channel

    def settle(self, tag: int, multiple: bool, how: int) -> None:
        """Collect a settlement; what is unknown, or collected already, is refused at once."""
        tags = self._proxy.tags
        if not (tag == 0 and multiple) and (tag not in tags or tag in self._settlements):
            raise ProtocolError(Reply.PRECONDITION_FAILED, f"unknown delivery tag {tag}")
        for each in tags.through(tag) if multiple else [tag]:
            self._settlements.setdefault(each, how)
        self._check_room()

    def commit(self) -> None:
        """Send everything to the shards, and begin anew."""
        publishes, settlements = self._publishes, self._settlements
        for publish in publishes:
            publish.check_sizes()
        self.clear()
        for number, publish in enumerate(publishes, 1):
            publish.send(number)
        for tag, how in settlements.items():
            if tag in self._proxy.tags:
                self._proxy.settle_now(tag, False, how)


def consume(channel: ProxyChannel, method: BasicConsume) -> None:
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
    begun = channel.awaited(lambda _: channel.answer(method.nowait, BasicConsumeOk(tag)))
    shard_channel.consume(ProxyConsumer(asked, channel.consumer_prefetch, reading), begun)


def cancel(channel: ProxyChannel, method: BasicCancel) -> None:
    """Stop pushing; an unknown consumer is no error, since the server may have cancelled it just now."""
    tag = method.consumer_tag
    shard_channel = channel.consumers.pop(tag, None)
    if shard_channel is None:
        channel.remove_consumer(tag)
        channel.answer(method.nowait, BasicCancelOk(tag))
        return

    def cancelled(_: BasicCancelOk) -> None:
        shard_channel.consumers.pop(tag, None)
        channel.answer(method.nowait, BasicCancelOk(tag))

    channel.ask(shard_channel, BasicCancel(tag, False), cancelled)


def get(channel: ProxyChannel, method: BasicGet) -> None:
    """Give one message."""
    name = channel.queue_name(method.queue)
    channel.authorize("basic.get", {"queue": name})
    channel.queue(name)
    channel.getting_without_ack, channel.getting_from = method.no_ack, name

    def given(answer: Method) -> None:
        if not hasattr(answer, "delivery_tag"):  # a message is handed out when its content is here
            channel.empty_gets += 1
            channel.say(answer)

    channel.ask(channel.shard_channel(name), BasicGet(name, method.no_ack), given)


def purge(channel: ProxyChannel, method: QueuePurge) -> None:
    """Drop what waits in a queue."""
    name = channel.queue_name(method.queue)
    channel.authorize("queue.purge", {"queue": name})
    channel.queue(name)

    def purged(answer: QueuePurgeOk) -> None:
        note_purge(channel, name, answer.message_count)
        channel.answer(method.nowait, answer)

    channel.ask(channel.shard_channel(name), QueuePurge(name), purged)


def delete(channel: ProxyChannel, method: QueueDelete) -> None:
    """Delete a queue, in its shard and then in the catalog; a missing one is no error."""
    name = channel.queue_name(method.queue)
    channel.authorize("queue.delete", {"queue": name})
    if name not in channel.virtual_host.queues:
        channel.answer(method.nowait, QueueDeleteOk(0))
        return
    channel.queue(name)

    def deleted(answer: QueueDeleteOk) -> None:
        channel.note("queue.delete", {"queue": name, "count": answer.message_count})
        channel.change(DeleteQueue(channel.vhost, name), lambda _: channel.answer(method.nowait, answer))

    channel.ask(channel.shard_channel(name), QueueDelete(name, method.if_unused, method.if_empty), deleted)


def recover(channel: ProxyChannel, method: BasicRecover) -> None:
    """Deliver again what was not settled."""
    _recover(channel, method.requeue, lambda: channel.say(BasicRecoverOk()))


def recover_async(channel: ProxyChannel, method: BasicRecoverAsync) -> None:
    """The same without an answer."""
    _recover(channel, method.requeue, lambda: None)


def _recover(channel: ProxyChannel, requeue: bool, then: Callable[[], None]) -> None:
    if not requeue:
        raise ProtocolError(Reply.NOT_IMPLEMENTED, "requeue=false")
    kept = channel.transaction.settled if channel.transaction is not None else ()
    if kept:
        for tag in [each for each in channel.tags.through(0) if each not in kept]:
            channel.settle_now(tag, False, REQUEUED)
        then()
        return
    left = set(channel.shard_channels.values())

    def recovered(shard_channel: ShardChannel, _: Method) -> None:
        channel.tags.take_back(shard_channel)  # with what was on its way when the shard processed it
        left.discard(shard_channel)
        if not left:
            then()

    for shard_channel in tuple(left):
        shard_channel.shard_connection.learn_names()  # the shard has none of them any more when it loses its owner
        channel.tags.name(shard_channel, shard_channel.names)
        channel.ask(shard_channel, BasicRecover(True), partial(recovered, shard_channel))
    if not left:
        then()


def close(channel: ProxyChannel, method: ChannelClose) -> None:
    """The client is done with the channel: it is told so when every shard has taken back what it holds."""
    if not channel.deaf:
        channel.release()
        channel.forget()
        channel.proxy.when_closed(channel.number, lambda: channel.proxy.say(ChannelCloseOk(), channel.number))
    else:
        channel.say(ChannelCloseOk())


def select(channel: ProxyChannel, method: TxSelect) -> None:
    """Collect from now on."""
    if channel.confirming:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction, channel.transacting = ProxyTransaction(channel), True
    channel.say(TxSelectOk())


def commit(channel: ProxyChannel, method: TxCommit) -> None:
    """Do what was collected; the answer says that every shard has it on its disks."""
    if channel.transaction is None:
        raise ProtocolError(Reply.PRECONDITION_FAILED, "channel is not transactional")
    channel.transaction.commit()
    channel.when_safe(lambda: channel.say(TxCommitOk()))


HANDLERS: Handlers = {
    **SINGLE,
    BasicConsume: consume,
    BasicCancel: cancel,
    BasicGet: get,
    BasicRecover: recover,
    BasicRecoverAsync: recover_async,
    ChannelClose: close,
    QueueDelete: delete,
    QueuePurge: purge,
    TxCommit: commit,
    TxSelect: select,
}
