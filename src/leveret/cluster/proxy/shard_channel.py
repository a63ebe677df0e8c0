"""The part of a client's channel that is in one shard: a channel there, with the same number.

It is opened when it is first needed, and again when the shard has another owner: consumers go on with what they hold,
and what was asked and not answered is asked again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from leveret.cluster.proxy.claims import Name, claims
from leveret.cluster.proxy.reading import Reading
from leveret.cluster.proxy.relay import ShardChannelBase
from leveret.protocols.amqp.codec import encode
from leveret.protocols.amqp.methods import BasicConsume, BasicQos, ChannelClose, ChannelOpen, ConfirmSelect, Method

if TYPE_CHECKING:
    from leveret.cluster.proxy.shard_connection import ShardConnection

Then = Callable[[Method], None]


class PendingMethod(NamedTuple):
    """A method that the shard has not answered, and what to do with the answer; None: nothing."""

    method: Method
    then: Then | None


class ProxyConsumer(NamedTuple):
    """A consumer of the client: how to begin it, and what it may be given at once."""

    method: BasicConsume
    prefetch: int
    reading: Reading | None = None
    """Its place, if it reads a stream."""

    def resumed(self) -> ProxyConsumer:
        """The same for the next owner of the shard."""
        if self.reading is None:
            return self
        return self._replace(method=replace(self.method, arguments=self.reading.arguments()))


class ShardChannel(ShardChannelBase):
    """One channel in one shard."""

    shard_connection: ShardConnection
    consumers: dict[str, ProxyConsumer]

    def __init__(self, shard_connection: ShardConnection, number: int, prefetch: int) -> None:
        """Open it; `prefetch` is that of all consumers together."""
        super().__init__(shard_connection, number)
        self._prefetch = prefetch
        self._questions: deque[PendingMethod] = deque()
        self._open()

    @property
    def shard_id(self) -> str:
        """The shard."""
        return self.shard_connection.shard_id

    def _open(self) -> None:
        self.prepare(ChannelOpen())
        self.prepare(ConfirmSelect())
        if self._prefetch:
            self.limit(self._prefetch)

    # Talking

    def say(self, method: Method) -> None:
        """Send a method that is not answered."""
        self.shard_connection.method(self.number, encode(method))

    def ask(self, method: Method, then: Then | None) -> None:
        """Send a method, and go on with its answer."""
        self._questions.append(PendingMethod(method, then))
        self.say(method)

    def prepare(self, method: Method) -> None:
        """Send a method whose answer is no news."""
        self.ask(method, None)

    def publish(self, method: bytes, content: bytes, header_len: int) -> None:
        """Send a message."""
        self.shard_connection.content(self.number, method, content, header_len)

    def answered(self, method: Method) -> None:
        """The answer to the oldest question has come."""
        question = self._questions.popleft()
        if question.then is not None:
            question.then(method)

    def answer_all(self, method: Method) -> None:
        """Let this be the answer to everything that was asked."""
        while self._questions:
            self.answered(method)

    # Consumers

    def limit(self, prefetch: int) -> None:
        """How much all consumers together may be given; each shard counts for itself."""
        self._prefetch = prefetch
        self.prepare(BasicQos(0, prefetch, True))

    def consume(self, consumer: ProxyConsumer, then: Then | None) -> None:
        """Begin a consumer."""
        self.consumers[consumer.method.consumer_tag] = consumer
        self.prepare(BasicQos(0, consumer.prefetch, False))
        self.ask(consumer.method, then)

    # Coming and going

    def reopen(self, held: Iterable[tuple[str, Name]]) -> None:
        """The shard has another owner, who is told what there is to know of this channel, and what the client holds."""
        self.consumers = {tag: consumer.resumed() for tag, consumer in self.consumers.items()}
        questions = [each for each in self._questions if each.then is not None]
        self._questions.clear()
        self.names.clear()
        self._open()
        for claim in claims(held):
            self.shard_connection.method(self.number, claim)
        asked = {each.method.consumer_tag for each in questions if isinstance(each.method, BasicConsume)}
        for tag, consumer in self.consumers.items():
            if tag not in asked:
                self.consume(consumer, None)
        for question in questions:
            if isinstance(question.method, BasicConsume):
                self.consume(self.consumers[question.method.consumer_tag], question.then)
            else:
                self.ask(question.method, question.then)

    def close(self) -> None:
        """The client is done with the channel: what it holds goes back."""
        self.say(ChannelClose(200, "closed", 0, 0))

    def abandon(self) -> int:
        """Want no answers any more; gives how many are waited for."""
        waited = sum(each.then is not None for each in self._questions)
        self._questions.clear()
        return waited
