"""A client's channel on a node: its publishes go to the shards of their queues, its deliveries come from there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.cluster.proxy.confirms import Verdict
from leveret.cluster.proxy.handlers import HANDLERS
from leveret.cluster.proxy.relay import ProxyRoute, Relay
from leveret.cluster.proxy.shard_channel import ShardChannel
from leveret.core.changes import Change, RenewQueue, Tracked
from leveret.core.errors import QueueNotFound
from leveret.core.message import restored
from leveret.core.names import described
from leveret.core.properties import content as content_of
from leveret.core.publish import route_of
from leveret.core.queue import Queue
from leveret.core.topology import TRACE_EXCHANGE
from leveret.protocols.amqp.channel import Channel, Handlers
from leveret.protocols.amqp.publishing import Publish
from leveret.protocols.amqp.transaction import PARTIAL
from leveret.wire.codec import decode, encode
from leveret.wire.methods import (
    BasicCancel,
    BasicGetOk,
    BasicPublish,
    BasicRecoverOk,
    BasicReturn,
    ChannelClose,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.cluster.proxy.connection import ProxyConnection
    from leveret.cluster.proxy.shard_connection import ShardConnection

T = TypeVar("T")
DELIVER = b"\0\x3c\0\x3c"
COMMIT_IDS = (90, 20)
UNKNOWN_COMMIT = f"{PARTIAL}: a node was lost, and some of it may be missing; send it again"


class ProxyPublish(Publish):
    """A publish: checked and routed here, sent to the shards of its queues, which route it again among theirs."""

    _channel: ProxyChannel

    def send(self, number: int) -> None:
        """Hand it to the shards of its queues; `number` is that of its confirm, 0: none."""
        shard_ids = self._channel.shard_ids_of(queue for queue in self._queues if not queue.deleted)
        if self._sent_as_reply():
            shard_ids = []
        elif not shard_ids and self.mandatory:
            self._return()
        elif not shard_ids:
            self._channel.dropped += 1
        mandatory = self.mandatory and len(shard_ids) == 1  # one of several must not send back what another one has
        method = encode(BasicPublish(self.exchange, self.routing_key, mandatory, False))
        self._channel.forward(shard_ids, method, *self._forwarded(), number)

    def _forwarded(self) -> tuple[bytes, int]:
        """Properties and body as the shards get them: as they came, or with a name to reply to."""
        if not self._is_changed:
            return self.content, self._header_len
        return content_of(self._properties, self.content[self._header_len :])


class ProxyChannel(Channel, Relay):
    """One channel of a client."""

    handlers: Handlers = HANDLERS
    publish_type = ProxyPublish

    def __init__(self, connection: ProxyConnection, number: int) -> None:
        super().__init__(connection, number)
        self.proxy = connection
        self.delivered = self.tags
        self.consumers: dict[str, ShardChannel] = {}
        self.getting_without_ack = False
        self.getting_from = ""
        self._asked = (0, 0)
        self._late: list[BasicCancel] = []
        self._commits: list[Callable[[], None]] = []
        self._marks: dict[ShardConnection, int] = {}

    # To shards

    def shard_channel(self, queue: str) -> ShardChannel:
        """This channel in the shard of a queue."""
        return self.shard_channel_in(self.proxy.node.shard_id_of(self.vhost, queue))

    def shard_ids_of(self, queues: Iterable[Queue]) -> list[str]:
        """The shards of some queues, each once."""
        return list(dict.fromkeys(self.proxy.node.shard_id_of(self.vhost, queue.name) for queue in queues))

    def shard_channel_in(self, shard_id: str) -> ShardChannel:
        found = self.shard_channels.get(shard_id)
        if found is None:
            found = self.shard_channels[shard_id] = self.proxy.shard_connection(shard_id).shard_channel(
                self.number, self.prefetch
            )
        return found

    @property
    def has_unsent(self) -> bool:
        """Whether something was published to a shard that cannot be told it now."""
        return any(each.sent and not each.shard_connection.hears for each in self.shard_channels.values())

    def ask(self, shard_channel: ShardChannel, method: Method, then: Callable[[Any], None]) -> None:
        """Ask a shard, and go on with its answer; frames of the channel wait until then."""
        shard_channel.ask(method, self.awaited(then))

    def awaited(self, then: Callable[[Any], None]) -> Callable[[Method], None]:
        """Hear nothing on this channel until an answer comes, then go on with it."""
        self.proxy.wait(self.number)
        return lambda answer: self._answered(answer, then)

    def _answered(self, answer: Method, then: Callable[[Any], None]) -> None:
        self.proxy.go_on(self.number)
        then(answer)
        self._tell_late()

    def change(self, change: Change[T], then: Callable[[T], None]) -> None:
        """Change a definition on every node; frames of the channel wait until that is done."""
        self.proxy.wait(self.number)
        node = self.proxy.node
        tracked = Tracked(change)
        node.soon(lambda: node.change(tracked, lambda result: self._changed(tracked, result, then)))

    def _changed(self, tracked: Tracked[T], result: T | Exception, then: Callable[[T], None]) -> None:
        """Go on after a change, or refuse it."""
        if not isinstance(result, Exception):
            self.note_change(tracked)

        def finish() -> None:
            self.proxy.go_on(self.number)
            if self.deaf:
                self.proxy.made_too_late(result)
                return
            try:
                if isinstance(result, Exception):
                    raise result
                then(result)
            except Exception as error:
                self.proxy.on_error(error, self.number, *self._asked)
            self._tell_late()

        self.hub.finish(self.proxy, finish)

    def command(self, method: Method) -> None:
        """Do what a method asks for; a refusal that comes late names it."""
        self._asked = method.spec.class_id, method.spec.method_id
        super().command(method)

    def declared(self, method: QueueDeclare, queue: Queue) -> None:
        """Say what is in a queue that was declared, which its shard knows, and remember its name."""
        self.last_queue = queue.name
        self._count(method, queue, lambda: self._renew(method, queue))

    def _count(self, method: QueueDeclare, queue: Queue, missing: Callable[[], None]) -> None:
        """Let the shard of a queue answer a declaration, unless it has no such queue."""

        def counted(answer: QueueDeclareOk) -> None:
            self.answer(method.nowait, answer) if answer.queue else missing()

        self.ask(self.shard_channel(queue.name), QueueDeclare(queue.name, passive=True), counted)

    def _renew(self, method: QueueDeclare, queue: Queue) -> None:
        """A shard has just auto-deleted a queue: a declare of it does not wait until that is decided."""

        def missing() -> None:
            found = QueueNotFound(f"no {described('queue', queue.name, self.vhost)}")
            self.proxy.on_error(found, self.number, *self._asked)

        def renewed(made: Queue) -> None:
            if made.owner is not None:
                self.proxy.owned.add(made)
            self._count(method, made, missing)

        if method.passive:
            missing()
        else:
            self.change(RenewQueue(self.vhost, queue, method.arguments, method.durable, method.auto_delete), renewed)

    # Publishing

    def find_route(self, exchange: str, routing_key: str) -> ProxyRoute:
        """Check that the user may publish so, and say where it goes."""
        found = super().find_route(exchange, routing_key)
        return ProxyRoute(found.queues, found.plain, self.shard_ids_of(found.queues))

    def send_trace(self, key: str, wire: bytes, header_len: int) -> None:
        """Send what the firehose copied to the shards of its queues."""
        queues = self.virtual_host.route(TRACE_EXCHANGE, [key])
        method = encode(BasicPublish(TRACE_EXCHANGE, key, False, False))
        self.forward(self.shard_ids_of(queues), method, wire, header_len, 0)

    def trace_wire(self, queue: str, redelivered: bool, route: bytes, content: bytes, header_len: int) -> None:
        """Copy a delivery of a shard to the firehose."""
        self.trace_delivery(queue, redelivered, restored(route, content, header_len))

    def forward(self, shard_ids: list[str], method: bytes, content: bytes, header_len: int, number: int) -> None:
        """Send a message to shards; `number` is that of its confirm, 0: none is wanted."""
        if not shard_ids:
            if number:
                self.tell([Verdict(number, multiple=False, safe=True)])
            return
        shard_channels = [self.shard_channel_in(shard_id) for shard_id in shard_ids]
        self.confirms.sent(number, [shard_channel.sent for shard_channel in shard_channels])
        for shard_channel in shard_channels:
            shard_channel.shard_connection.content(self.number, method, content, header_len)

    # From shards

    def came(self, shard_channel: ShardChannel, method: bytes, content: bytes, header_len: int) -> None:
        """A message came: delivered, asked for, or sent back."""
        if method[:4] == DELIVER:
            self.deliver_late(shard_channel, method, content, header_len)
        else:
            came = decode(method)
            if isinstance(came, BasicGetOk):
                shard_channel.answered(came)
                self._got(shard_channel, came, content, header_len)
            elif isinstance(came, BasicReturn):
                self.returned += 1
                self.say_content(came, content, header_len)

    def _got(self, shard_channel: ShardChannel, came: BasicGetOk, content: bytes, header_len: int) -> None:
        tag = self.got(shard_channel, came.delivery_tag, came.redelivered, self.getting_without_ack)
        self.say_content(replace(came, delivery_tag=tag), content, header_len)
        if self.firehose.on:
            route = route_of(came.exchange, came.routing_key)
            self.trace_wire(self.getting_from, came.redelivered, route, content, header_len)

    def heard(self, shard_channel: ShardChannel, method: Method) -> None:
        """A method came that has no content."""
        if isinstance(method, BasicCancel):
            self._cancelled(shard_channel, method)
        elif isinstance(method, ChannelClose):
            self._closed_by(shard_channel, method)
        else:
            shard_channel.answered(method)

    def _cancelled(self, shard_channel: ShardChannel, method: BasicCancel) -> None:
        """A queue went away, and a consumer with it."""
        shard_channel.consumers.pop(method.consumer_tag, None)
        self.consumers.pop(method.consumer_tag, None)
        if self.connection.client_capabilities.get("consumer_cancel_notify") is True:
            self._late.append(method)
            self._tell_late()

    def _tell_late(self) -> None:
        """Tell the client of its consumers when it has its answers: some fail that hear of anything else before."""
        if not self.proxy.has_asked(self.number):
            late, self._late = self._late, []
            for method in late if not self.deaf else []:
                self.say(method)

    def _closed_by(self, shard_channel: ShardChannel, method: ChannelClose) -> None:
        """A shard has refused something: the channel closes everywhere."""
        shard_channel.shard_connection.forget(shard_channel)
        self.shard_channels.pop(shard_channel.shard_connection.shard_id, None)
        self.forget_way()
        self._abandon(shard_channel)
        if not self.deaf:
            self.release()
            self.say(method)

    def lost(self, shard_id: str) -> None:
        """A shard has lost its owner: what was on its way to it is to be sent again."""
        shard_channel = self.shard_channels.get(shard_id)
        if shard_channel is None:
            return
        self.tags.name(shard_channel, shard_channel.names)
        self.tags.lost(shard_channel)
        unknown = bool(shard_channel.sent)
        self.tell(self.confirms.lost(shard_channel.sent))
        if self._commits and unknown:
            self.proxy.on_error(ProtocolError(Reply.PRECONDITION_FAILED, UNKNOWN_COMMIT), self.number, *COMMIT_IDS)
        self.check_committed()

    def gone(self, shard_id: str) -> None:
        """A shard went with its node, in which others had exclusive queues: nothing but publishes was said to it."""
        self.lost(shard_id)
        shard_channel = self.shard_channels.pop(shard_id, None)
        self.forget_way()
        if shard_channel is not None:
            shard_channel.answer_all(BasicRecoverOk())

    # Transactions

    def when_safe(self, then: Callable[[], None]) -> None:
        """Go on when every shard has what was published, and has what was settled on its disks."""
        self.proxy.wait(self.number)
        self._commits.append(then)
        self._marks = {each.shard_connection: each.shard_connection.hurry() for each in self.shard_channels.values()}
        self.check_committed()

    def check_committed(self) -> None:
        """Go on with commits if that is so."""
        if self._commits and self.confirms.is_idle and all(each.durable_mark >= at for each, at in self._marks.items()):
            if self.partial:
                self.proxy.on_error(ProtocolError(Reply.PRECONDITION_FAILED, PARTIAL), self.number, *COMMIT_IDS)
                return
            commits, self._commits = self._commits, []
            for then in commits:
                self.proxy.go_on(self.number)
                then()

    # What operators see: what a single server counts in Traffic

    @property
    def confirmed(self) -> int:
        """Publishes of which the client was told what became of them."""
        return self.published - len(self.confirms)

    def limit(self, prefetch: int) -> None:
        """How much all consumers together may be given and not settle; each shard counts for itself."""
        self.prefetch = prefetch
        for shard_channel in self.shard_channels.values():
            shard_channel.limit(prefetch)

    @property
    def consumer_count(self) -> int:
        return len(self.consumers)

    @property
    def unacked_count(self) -> int:
        return len(self.tags)

    # Consumers

    def has_consumer(self, tag: str) -> bool:
        return tag in self.consumers or super().has_consumer(tag)

    # Ending

    def release(self) -> None:
        """Hear nothing more, and let every shard give back what was not settled."""
        self.deaf = True
        self.transaction, self.transacting = None, False
        self.tags.clear()
        self.forget_replies()
        self.consumers.clear()
        shard_channels, self.shard_channels = self.shard_channels, {}
        self.forget_way()
        for shard_channel in shard_channels.values():
            self._abandon(shard_channel)
            shard_channel.shard_connection.close(shard_channel)
        for _ in self._commits:
            self.proxy.go_on(self.number)
        self._commits.clear()

    def _abandon(self, shard_channel: ShardChannel) -> None:
        """Wait for no answer of a shard any more."""
        for _ in range(shard_channel.abandon()):
            self.proxy.go_on(self.number)
