"""queue.*: declare, bind, unbind, purge, delete. The queue "" is the one that the channel declared last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from leveret.core import browse
from leveret.core.changes import Bind, DeclareQueue, Unbind
from leveret.core.errors import QueueNotFound
from leveret.core.names import described
from leveret.core.queue import Queue
from leveret.protocols.amqp.names import REPLY_TO, queue_name, refuse_default, stripped
from leveret.security.authorisation import Role
from leveret.wire import methods

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel, Handlers

DEAD_LETTER_EXCHANGE = "x-dead-letter-exchange"


def declare(channel: Channel, method: methods.QueueDeclare) -> None:
    """Make a queue, or make sure that it is as it is said to be."""
    name = stripped(method.queue)
    if name.startswith(REPLY_TO):
        _declare_reply(channel, method, name)
    elif method.passive:
        channel.authorize("queue.declare-passive", {})
        queue = channel.queue(name)
        queue.use()  # RabbitMQ starts the time of x-expires anew here as well
        channel.declared(method, queue)
    else:
        _make(channel, method, name or queue_name())


def _make(channel: Channel, method: methods.QueueDeclare, name: str) -> None:
    """Make the queue of that name if need be, and answer."""
    names: dict[Role, str] = {"queue": name}
    is_new = name not in channel.virtual_host.queues
    dead_letters = method.arguments.get(DEAD_LETTER_EXCHANGE)
    if is_new and isinstance(dead_letters, str):
        names["dead_letter_exchange"] = dead_letters
    channel.authorize("queue.declare", names)
    if is_new:
        channel.hub.quotas.check_queue(channel.vhost, name)
    owner = channel.connection.owner if method.exclusive else None

    def made(queue: Queue) -> None:
        if owner is not None:
            channel.connection.owned.add(queue)
        channel.declared(method, queue)

    change = DeclareQueue(
        channel.vhost, name, method.arguments, method.durable, method.auto_delete, owner, server_named=not method.queue
    )
    channel.change(change, made)


def _declare_reply(channel: Channel, method: methods.QueueDeclare, name: str) -> None:
    """Whether a client still waits for replies under this name; that which stands for all of them is always there."""
    if name != REPLY_TO and channel.hub.replies.find(name) is None:
        raise QueueNotFound(f"no {described('queue', name, channel.vhost)}")
    channel.answer(method.nowait, methods.QueueDeclareOk(name, 0, 1))


def bind(channel: Channel, method: methods.QueueBind) -> None:
    """Lead messages of an exchange to a queue."""
    exchange, queue, key = _binding(channel, method, "queue.bind")
    channel.change(
        Bind(channel.vhost, exchange, queue, key, method.arguments),
        lambda _: channel.answer(method.nowait, methods.QueueBindOk(), durable=channel.queue(queue).durable),
    )


def unbind(channel: Channel, method: methods.QueueUnbind) -> None:
    """Undo a binding; a missing one is no error."""
    exchange, queue, key = _binding(channel, method, "queue.unbind")
    channel.change(
        Unbind(channel.vhost, exchange, queue, key, method.arguments),
        lambda _: channel.answer(False, methods.QueueUnbindOk(), durable=True),
    )


def _binding(channel: Channel, method: methods.QueueBind | methods.QueueUnbind, verb: str) -> tuple[str, str, str]:
    """Exchange, queue and routing key of a binding that the user may change."""
    exchange, queue = stripped(method.exchange), channel.queue_name(method.queue)
    refuse_default(exchange)
    # Both empty: the name of the queue that was declared last is the key, as in RabbitMQ. Permissions see that key.
    key = method.routing_key if method.queue or method.routing_key else queue
    names: dict[Role, str] = {"queue": queue, "exchange": exchange}
    channel.authorize(verb, names, channel.topic_key(exchange, key))
    if queue in channel.virtual_host.queues:
        channel.queue(queue)
    return exchange, queue, key


def purge(channel: Channel, method: methods.QueuePurge) -> None:
    """Drop what waits in a queue."""
    name = channel.queue_name(method.queue)
    channel.authorize("queue.purge", {"queue": name})
    queue = channel.queue(name)
    count = browse.purge(queue)
    note_purge(channel, name, count)
    channel.answer(method.nowait, methods.QueuePurgeOk(count), durable=queue.durable)


def note_purge(channel: Channel, name: str, count: int) -> None:
    """Note that messages were purged, if there were any."""
    if count:
        channel.note("queue.purge", {"queue": name, "count": count})


def delete(channel: Channel, method: methods.QueueDelete) -> None:
    """Delete a queue; a missing one is no error."""
    name = channel.queue_name(method.queue)
    channel.authorize("queue.delete", {"queue": name})
    if name not in channel.virtual_host.queues:
        channel.answer(method.nowait, methods.QueueDeleteOk(0))
        return
    queue = channel.queue(name)
    with channel.cancels() as cancels:
        ready = channel.core.delete_queue(queue, if_unused=method.if_unused, if_empty=method.if_empty)
    count = ready if queue.recorder is None else 0  # records do not wait for anybody: RabbitMQ counts none
    channel.note("queue.delete", {"queue": name, "count": count})
    channel.answer(method.nowait, methods.QueueDeleteOk(count), durable=queue.durable)
    # Clients fail that hear of their consumer's end while they wait for the answer.
    for cancel in cancels:
        channel.answer(False, cancel, durable=queue.durable)


HANDLERS: Handlers = {
    methods.QueueDeclare: declare,
    methods.QueueBind: bind,
    methods.QueueUnbind: unbind,
    methods.QueuePurge: purge,
    methods.QueueDelete: delete,
}
