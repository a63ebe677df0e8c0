"""One channel: consumers, transactions, the queue declared last. The messages themselves are moved by traffic.pyx."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.core import browse, dispatch
from leveret.core.changes import (
    Bind,
    Change,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    RenewQueue,
    Tracked,
    Unbind,
)
from leveret.core.errors import AccessRefused, DiskFull, QueueNotFound
from leveret.core.exchanges import Exchange
from leveret.core.filters import BLOB
from leveret.core.held import Held
from leveret.core.message import Message
from leveret.core.publish import route_of
from leveret.core.queue import Queue
from leveret.core.routing import walk
from leveret.core.streams import StreamCursor
from leveret.core.topology import TRACE_EXCHANGE, Vhost
from leveret.operations.registry import OPERATIONS, rule_of
from leveret.protocols.amqp import firehose
from leveret.protocols.amqp.bodies import delivered_header, tried
from leveret.protocols.amqp.handlers import basic, channel, exchange, queue
from leveret.protocols.amqp.names import REPLY_TO, stripped
from leveret.protocols.amqp.publishing import Publish
from leveret.protocols.amqp.replying import ReplyConsumer
from leveret.protocols.amqp.state import Hold
from leveret.protocols.amqp.subscriber import StreamSubscriber
from leveret.protocols.amqp.traffic import ChannelRoute, ChannelTraffic
from leveret.protocols.amqp.transaction import DeliveryTags, Transaction
from leveret.security.authorisation import Role, authorise
from leveret.wire import methods
from leveret.wire.codec import encode
from leveret.wire.replies import ProtocolError, Reply, refusal

if TYPE_CHECKING:
    from leveret.protocols.amqp.connection import AmqpConnection
    from leveret.protocols.amqp.subscriber import Subscriber

Handlers = dict[type[methods.Method], Callable[[Any, Any], None]]  # of a channel and a method
HANDLERS: Handlers = {**basic.HANDLERS, **channel.HANDLERS, **exchange.HANDLERS, **queue.HANDLERS}
PUBLISH_IDS = (60, 40)
CONSUME_IDS = (60, 20)

T = TypeVar("T")
TOLD: dict[type[Change[Any]], tuple[str, dict[str, str]]] = {
    DeclareQueue: ("queue.declare", {"queue": "name", "durable": "durable"}),
    RenewQueue: ("queue.declare", {"queue": "gone.name", "durable": "durable"}),
    DeclareExchange: ("exchange.declare", {"exchange": "name", "type": "type", "durable": "durable"}),
    DeleteExchange: ("exchange.delete", {"exchange": "name"}),
    Bind: ("bind", {"exchange": "source", "routing_key": "key"}),
    Unbind: ("unbind", {"exchange": "source", "routing_key": "key"}),
}
"""The method of a change, and which of its attributes are told under which names."""


class Channel(ChannelTraffic):
    """One channel of a connection."""

    handlers: Handlers = HANDLERS
    publish_type = Publish

    def __init__(self, connection: AmqpConnection, number: int) -> None:
        hub = connection.hub
        limits = hub.limits
        shared = connection.outlet, hub.core, number, connection.routes
        super().__init__(*shared, limits.message_bytes_max, connection.firehose)
        self.large_bytes = limits.message_bytes_max if hub.bodies is None else limits.blob_bytes
        self.connection = connection
        self.hub = hub
        self.vhost = connection.vhost
        self.virtual_host: Vhost = hub.core.topology.vhost(connection.vhost)
        self.last_queue = ""
        self.consumer_prefetch = 0
        self.delivered: DeliveryTags = self.unacked
        self.transaction: Transaction | None = None
        self.reply_consumer: ReplyConsumer | None = None
        self._cancels: list[methods.BasicCancel] | None = None

    # Methods

    def command(self, method: methods.Method) -> None:
        if self.deaf and not isinstance(method, methods.ChannelClose | methods.ChannelCloseOk):
            return
        handler = self.handlers.get(type(method))
        if handler is None:
            raise ProtocolError(Reply.COMMAND_INVALID, "unimplemented method")
        handler(self, method)

    def say(self, method: methods.Method) -> None:
        self.connection.say(method, self.number)

    def say_content(self, method: methods.Method, content: bytes, header_len: int) -> None:
        self.outlet.content(self.number, encode(method), content, header_len)
        self.outlet.note()

    def answer(self, nowait: bool, method: methods.Method, *, durable: bool = False) -> None:
        """Write an answer, if one is wanted; a durable one when all that was done so far is on disk."""
        if durable and not nowait:
            self.hub.answer_when_durable(self.connection, lambda: self._answer_late(method))
        elif not nowait:
            self.say(method)

    def _answer_late(self, method: methods.Method) -> None:
        """Write an answer, unless the channel was closed meanwhile."""
        if self.connection.channels.get(self.number) is self and not self.deaf:
            self.say(method)

    # What handlers ask

    def authorize(self, verb: str, names: Mapping[Role, str], topic_key: str | None = None) -> None:
        identity = self.connection.identity
        assert identity is not None, "a channel is opened after the login"
        try:
            keys = () if topic_key is None else (topic_key,)
            authorise(self.hub.access.permissions, identity, rule_of(verb), self.vhost, names, keys)
        except AccessRefused as error:
            self._note_refusal(verb, error)
            raise

    def _note_refusal(self, verb: str, error: AccessRefused) -> None:
        audit, connection = self.hub.audit, self.connection
        if audit is not None:
            facts: dict[str, object] = {"peer": connection.peer.host, "vhost": self.vhost}
            audit.refused(connection.user_name, verb, str(error), f"AMQP {verb}", type(error).__name__, **facts)

    def check_consumers(self) -> None:
        """Cancel consumers of what the user may not read any more; a client that knows no cancel loses the channel."""
        notified = self.connection.client_capabilities.get("consumer_cancel_notify") is True
        for subscriber in tuple(self.subscribers.values()):
            try:
                self.authorize("basic.consume", {"queue": subscriber.queue.name})
            except AccessRefused as error:
                if not notified:
                    self.fail(refusal(error), *CONSUME_IDS)
                    return
                self.remove_consumer(subscriber.tag)
                self.say(methods.BasicCancel(subscriber.tag, nowait=True))

    def topic_key(self, exchange: str, key: str) -> str | None:
        """The key, if the exchange is one whose keys have permissions of their own."""
        found = self.virtual_host.exchanges.get(exchange)
        return key if found is not None and found.type == "topic" else None

    def queue_name(self, name: str) -> str:
        """The name of a queue; nothing stands for the one that was declared last."""
        if name:
            return stripped(name)
        if not self.last_queue:
            raise QueueNotFound("no previously declared queue")
        return self.last_queue

    def queue(self, name: str) -> Queue:
        """The queue of that name, unless another connection has it for itself."""
        found: Queue = self.virtual_host.queue(name)
        if found.owner is not None:
            self.core.check_owner(found, self.connection.owner)
        return found

    def declared(self, method: methods.QueueDeclare, queue: Queue) -> None:
        self.last_queue = queue.name
        answer = methods.QueueDeclareOk(queue.name, queue.depth, len(queue.consumers or ()))
        self.answer(method.nowait, answer, durable=queue.durable and not method.passive)

    def change(self, change: Change[T], then: Callable[[T], None]) -> None:
        """Change a definition, then go on with what that gives."""
        tracked = Tracked(change)
        result = tracked.apply(self.core)
        self.note_change(tracked)
        then(result)

    def note_change(self, tracked: Tracked[Any]) -> None:
        """Note a change that was made, unless it changed nothing."""
        told = told_of(tracked.change) if tracked.changed and self.hub.audit is not None else None
        if told is not None:
            self.note(told[0], told[1])

    def note(self, method: str, facts: dict[str, object]) -> None:
        audit, connection = self.hub.audit, self.connection
        if audit is not None and OPERATIONS[method].audited:
            audit.changed(connection.user_name, method, peer=connection.peer.host, vhost=self.vhost, **facts)

    # Publishing: see Traffic

    def find_route(self, exchange: str, routing_key: str) -> ChannelRoute:
        """Check that the user may publish so, and say where it goes."""
        self.authorize("basic.publish", {"exchange": exchange}, self.topic_key(exchange, routing_key))
        found = self.check_exchange(exchange)
        if not exchange:
            target = self.virtual_host.queues.get(routing_key)
            plain = not routing_key.startswith(REPLY_TO) and not self.firehose.on
            return ChannelRoute([] if target is None else [target], plain)
        queues, plain = walk(found, self.virtual_host.exchanges, [routing_key], None, None)
        return ChannelRoute(queues, plain and not self.firehose.on)

    def check_exchange(self, name: str) -> Exchange:
        """The exchange of that name, if it takes what clients publish."""
        return self.virtual_host.open_exchange(name)

    def publish_slowly(
        self, exchange: str, routing_key: str, mandatory: bool, immediate: bool, content: bytes, header_len: int
    ) -> None:
        """Publish a message that asks for something unusual, or is refused."""
        if immediate:
            raise ProtocolError(Reply.NOT_IMPLEMENTED, "immediate=true")
        publish = self.publish_type(self, exchange, routing_key, mandatory, content, header_len)
        if self.firehose.on:
            publish.trace()
        if publish.is_large:
            self._store(publish)
        else:
            self._publish(publish)

    def trace_delivery(self, queue: str, redelivered: bool, message: Message) -> None:
        """Copy a message that the client gets to the firehose."""
        firehose.trace_delivery(self, queue, redelivered, message)

    def send_trace(self, key: str, wire: bytes, header_len: int) -> None:
        """Publish what the firehose copied; at most once."""
        queues = self.virtual_host.route(TRACE_EXCHANGE, [key])
        self.core.publish(queues, route_of(TRACE_EXCHANGE, key), wire, header_len, persistent=False)

    def _publish(self, publish: Publish) -> None:
        """Publish what was checked, now or at the end of the transaction."""
        if self.transaction is not None:
            self.transaction.publish(publish)
        else:
            publish.send(self.published if self.confirming else 0)

    def _store(self, publish: Publish) -> None:
        """Store a large body before its message is published; no other frame of the channel is processed meanwhile."""
        self.published -= self.confirming
        self._put_away(publish)

    def _put_away(self, publish: Publish) -> None:
        """Store the body of a message, unless its publisher has disconnected."""
        if self.deaf:
            return
        self.connection.hold(Hold.BODY)
        self.hub.attempt(self.connection, publish.store, lambda result: self._stored(publish, result))

    def _stored(self, publish: Publish, result: bytes | Exception) -> None:
        """Go on with a message whose body was put away; what is refused now is refused as if it had just come."""
        self.connection.let_go(Hold.BODY)
        if isinstance(result, bytes):
            publish.put_away(result)
        if self.deaf:
            publish.drop()
        elif isinstance(result, DiskFull):
            self.connection.postpone(partial(self._put_away, publish))
        elif self.core.journal.full:
            self.connection.postpone(partial(self._stored, publish, result))
        else:
            self._publish_stored(publish, result)

    def _publish_stored(self, publish: Publish, result: bytes | Exception) -> None:
        """Publish a message whose body was put away, or say why it was not."""
        try:
            if isinstance(result, Exception):
                raise result
            self.published += self.confirming
            self._publish(publish)
            self.connection.confirm_later(self)
        except Exception as error:
            self.connection.on_error(error, self.number, *PUBLISH_IDS)

    def settle_later(self, tag: int, multiple: bool, how: int) -> None:
        """Keep a settlement for the end of the transaction."""
        assert self.transaction is not None, "only a transaction puts it off"
        self.transaction.settle(tag, multiple, how)

    def changed_content(self, held: Held, message: Message) -> tuple[bytes, bytes]:
        """Header and body of a message that is not delivered as it lies."""
        bodies = self.hub.bodies
        body = bodies.get(message.body) if bodies is not None and message.flags & BLOB else message.body
        assert body is not None, "what is pushed was fetched before"
        return delivered_header(held, message, len(body)), body

    def has_body(self, held: Held) -> bool:
        """Whether the body of a message is here, although it is not kept in the log."""
        return self.hub.bodies is None or self.hub.bodies.get(browse.read(held).body) is not None

    def get_later(self, held: Held, no_ack: bool) -> None:
        """Fetch the body of a message, then do what basic.get asked for."""
        self.connection.hold(Hold.BODY)
        self._fetch(held, lambda: self._get_again(held.queue, no_ack))

    def _get_again(self, source: Queue, no_ack: bool) -> None:
        """What basic.get asked for, if the client still wants it; the message may be another one by now."""
        self.connection.let_go(Hold.BODY)
        if not self.deaf and (source.deleted or not self.get(source, no_ack)):
            self.say(methods.BasicGetEmpty())

    def fetch_for(self, subscriber: Subscriber, held: Held) -> None:
        """Fetch the body of a message, then push to a consumer again."""

        def push() -> None:
            subscriber.blocked = False
            self.resume()

        self._fetch(held, push)

    def fetch_records(self, cursor: StreamCursor, job: Callable[[], None]) -> None:
        """Fetch records of a stream from a slow disk, then push them."""

        def came(result: object) -> None:
            # Why it failed, if it did, is told to the caller that reads them now.
            with self.hub.locked():
                cursor.fetched()
                self.resume()

        self.hub.in_thread(partial(tried, job), came)

    def _fetch(self, held: Held, then: Callable[[], None]) -> None:
        assert self.hub.bodies is not None, "has_body said that something is missing"
        self.hub.bodies.fetch(browse.read(held).body, then)

    # Consumers

    def limit(self, prefetch: int) -> None:
        """How much all consumers together may be given and not settle; 0: no limit."""
        self.prefetch = prefetch
        self.resume()

    @property
    def consumer_count(self) -> int:
        """How many there are, but for the one that takes replies."""
        return len(self.subscribers)

    @property
    def unacked_count(self) -> int:
        return len(self.unacked)

    def has_consumer(self, tag: str) -> bool:
        return tag in self.subscribers or (self.reply_consumer is not None and self.reply_consumer.tag == tag)

    def add_consumer(self, subscriber: Subscriber, source: Queue) -> None:
        dispatch.subscribe(source, subscriber)
        self.subscribers[subscriber.tag] = subscriber

    def remove_consumer(self, tag: str) -> None:
        """Stop to push; what was pushed stays with the client until it is settled."""
        if self.reply_consumer is not None and self.reply_consumer.tag == tag:
            self.forget_replies()
        subscriber = self.subscribers.pop(tag, None)
        if subscriber is not None and not subscriber.queue.deleted:
            dispatch.unsubscribe(subscriber.queue, subscriber)
        if isinstance(subscriber, StreamSubscriber):
            subscriber.close()

    def forget_replies(self) -> None:
        if self.reply_consumer is not None:
            self.hub.replies.drop(self.reply_consumer)
            self.reply_consumer = None

    def subscriber_cancelled(self, subscriber: Subscriber) -> None:
        """A queue went away: tell the client, if it wants to know."""
        self.subscribers.pop(subscriber.tag, None)
        if isinstance(subscriber, StreamSubscriber):
            subscriber.close()
        if self.connection.client_capabilities.get("consumer_cancel_notify") is True:
            cancel = methods.BasicCancel(subscriber.tag, nowait=True)
            if self._cancels is None:
                self.say(cancel)
            else:
                self._cancels.append(cancel)

    @contextmanager
    def cancels(self) -> Iterator[list[methods.BasicCancel]]:
        """Collect what consumers of this channel are to be told of in this block, in place of telling them."""
        collected: list[methods.BasicCancel] = []
        self._cancels = collected
        try:
            yield collected
        finally:
            self._cancels = None

    # Ending

    def fail(self, refused: ProtocolError, class_id: int, method_id: int) -> None:
        """Close the channel with an error; every frame but the answer to that is ignored."""
        if self.deaf:
            return
        self.release()
        self.say(methods.ChannelClose(refused.code, refused.text, class_id, method_id))

    def release(self) -> None:
        """Hear nothing more, stop consuming, and give back what was not settled."""
        self.deaf = True
        transaction, self.transaction, self.transacting = self.transaction, None, False
        with ExitStack() as steps:  # last in, first out, and all of them: what cannot be read holds up nothing else
            steps.callback(self.requeue_all)
            if transaction is not None:
                steps.callback(transaction.roll_back)
            steps.callback(self.forget_replies)
            for tag in reversed(self.subscribers):
                steps.callback(self.remove_consumer, tag)

    def forget(self) -> None:
        if self.connection.channels.pop(self.number, None) is not None:
            self.hub.traffic.keep(self)


def told_of(change: Change[Any]) -> tuple[str, dict[str, object]] | None:
    """The method and facts about a change; None: nothing, since its handler notes more than the change knows."""
    if type(change) not in TOLD:
        return None
    method, named = TOLD[type(change)]
    facts: dict[str, object] = {name: attrgetter(attribute)(change) for name, attribute in named.items()}
    if isinstance(change, Bind | Unbind):
        method = f"{change.destination_type}.{method}"
        facts["queue" if change.destination_type == "queue" else "destination"] = change.destination
    elif isinstance(change, DeclareQueue) and change.owner is not None:
        facts["exclusive"] = True
    arguments = getattr(change, "arguments", None)
    return method, facts | ({"arguments": dict(arguments)} if arguments else {})
