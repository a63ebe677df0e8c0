"""The part of a client's channel that is in one shard: a channel there, with the same number.

It is opened when it is first needed, and again when the shard has another owner: consumers go on with what they hold,
and what was asked and not answered is asked again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from leveret.amqp.codec import encode
from leveret.amqp.methods import (
    BasicConsume,
    BasicQos,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    Method,
)
from leveret.core.consumer_arguments import OFFSET, PARTITION
from leveret.core.properties import decode_header
from leveret.core.tables import Long
from leveret.node.claims import Name, claims

if TYPE_CHECKING:
    from leveret.node.front.backend import Backend

Then = Callable[[Method], None]


class Question(NamedTuple):
    """A method that the shard has not answered, and what to do with the answer; None: nothing."""

    method: Method
    then: Then | None


class Consumer(NamedTuple):
    """A consumer of the client: how to begin it, and what it may be given at once."""

    method: BasicConsume
    prefetch: int
    reads_stream: bool = False


class Branch:
    """One channel in one shard."""

    def __init__(self, backend: Backend, number: int, prefetch: int) -> None:
        """Open it; `prefetch` is that of all consumers together."""
        self.backend = backend
        self.number = number
        self.consumers: dict[str, Consumer] = {}
        self.names: dict[int, Name] = {}
        """Which messages deliveries are that are about to come, by their tags."""
        self.read: dict[str, bytes] = {}
        """The content header of the last record that each consumer of a stream was given."""
        self._prefetch = prefetch
        self._questions: deque[Question] = deque()
        self._open()

    @property
    def home(self) -> str:
        """The shard."""
        return self.backend.home

    def _open(self) -> None:
        self.prepare(ChannelOpen())
        self.prepare(ConfirmSelect())
        if self._prefetch:
            self.limit(self._prefetch)

    # Talking

    def say(self, method: Method) -> None:
        """Send a method that is not answered."""
        self.backend.method(self.number, encode(method))

    def ask(self, method: Method, then: Then | None) -> None:
        """Send a method, and go on with its answer."""
        self._questions.append(Question(method, then))
        self.say(method)

    def prepare(self, method: Method) -> None:
        """Send a method whose answer is no news."""
        self.ask(method, None)

    def publish(self, method: bytes, content: bytes, header_len: int) -> None:
        """Send a message."""
        self.backend.content(self.number, method, content, header_len)

    def settle(self, method: Method, how: int, names: list[Name]) -> None:
        """Settle deliveries; until the shard has that on its disks, its next owner may have to be told."""
        self.say(method)
        self.backend.settled(how, names)

    def answered(self, method: Method) -> None:
        """The answer to the oldest question has come."""
        question = self._questions.popleft()
        if question.then is not None:
            question.then(method)

    # Consumers

    def limit(self, prefetch: int) -> None:
        """How much all consumers together may be given; each shard counts for itself."""
        self._prefetch = prefetch
        self.prepare(BasicQos(0, prefetch, True))

    def consume(self, consumer: Consumer, then: Then | None) -> None:
        """Begin a consumer."""
        self.consumers[consumer.method.consumer_tag] = consumer
        self.prepare(BasicQos(0, consumer.prefetch, False))
        self.ask(consumer.method, then)

    # Coming and going

    def reopen(self, held: Iterable[tuple[str, Name]]) -> None:
        """The shard has another owner, who is told what there is to know of this channel, and what the client holds."""
        questions = [each for each in self._questions if each.then is not None]
        self._questions.clear()
        self.names.clear()
        self._open()
        for claim in claims(held):
            self.backend.method(self.number, claim)
        asked = {each.method.consumer_tag for each in questions if isinstance(each.method, BasicConsume)}
        for tag, consumer in self.consumers.items():
            if tag not in asked:
                method = resumed(consumer.method, self.read.get(tag))
                self.consume(consumer._replace(method=method), None)
        for question in questions:
            if isinstance(question.method, BasicConsume):
                self.consume(self.consumers[question.method.consumer_tag], question.then)
            else:
                self.ask(question.method, question.then)

    def close(self) -> None:
        """The client is done with the channel: what it holds goes back."""
        self.say(ChannelClose(200, "closed", 0, 0))

    def abandon(self) -> int:
        """Want no answers any more; gives how many somebody waits for."""
        waited = sum(each.then is not None for each in self._questions)
        self._questions.clear()
        return waited


def resumed(method: BasicConsume, last: bytes | None) -> BasicConsume:
    """How a consumer of a stream goes on after the last record that it was given.

    One that reads several partitions at once has no single place to go on at: it begins again where it began.
    """
    headers = {} if last is None else decode_header(last).headers or {}
    offset = headers.get(OFFSET)
    if not isinstance(offset, int) or (PARTITION in headers and PARTITION not in method.arguments):
        return method
    return replace(method, arguments={**method.arguments, OFFSET: Long(offset + 1)})
