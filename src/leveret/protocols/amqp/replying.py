"""Direct reply-to: a consumer without a queue. Replies go straight to the channel that asked, or nowhere.

The channel publishes its requests with reply_to "amq.rabbitmq.reply-to"; those who answer see a name in its stead that
cannot be guessed, and publish to the default exchange with it as the routing key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from leveret.protocols.amqp.names import node_of_reply, reply_name
from leveret.wire.methods import BasicDeliver

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel


class Taker(Protocol):
    """Who takes a reply."""

    def deliver(self, exchange: str, routing_key: str, content: bytes, header_len: int) -> bool:
        """Take it; False when it is lost."""


class ReplyConsumer:
    """Who waits for replies on a channel."""

    def __init__(self, channel: Channel, tag: str) -> None:
        self._channel = channel
        self.tag = tag
        self.name = reply_name(channel.hub.replies.node)

    def deliver(self, exchange: str, routing_key: str, content: bytes, header_len: int) -> bool:
        """Send a reply; False when it is lost, because the client does not read what it is sent."""
        if self._channel.congested:
            return False
        method = BasicDeliver(self.tag, self._channel.next_tag(), False, exchange, routing_key)
        self._channel.say_content(method, content, header_len)
        return True


class Replies:
    """Who waits for replies, by the names that requests carry."""

    def __init__(self) -> None:
        self.node = ""
        self.in_thread: Callable[[str], Taker | None] = lambda node: None
        """Who takes what is for another node; None: there is no such node."""
        self._waiting: dict[str, ReplyConsumer] = {}

    def add(self, consumer: ReplyConsumer) -> None:
        self._waiting[consumer.name] = consumer

    def drop(self, consumer: ReplyConsumer) -> None:
        """The channel does not wait any more."""
        self._waiting.pop(consumer.name, None)

    def find(self, name: str) -> Taker | None:
        """Who takes replies under a name."""
        return self._waiting.get(name) or self.in_thread(node_of_reply(name))
