"""The part of a client's channel that is in one shard: a channel there, with the same number.

It is opened when it is first needed, and again when the shard has another owner: consumers go on with what they hold,
and what was asked and not answered is asked again. A consumer of a stream goes on behind the last record that it was
given: where that was read stands at the end of its headers (drawn in protocols/amqp/subscriber.pyx).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from leveret.clock import ticks_us
from leveret.cluster.proxy.claims import PackedName, claims
from leveret.cluster.proxy.relay import ShardChannelBase
from leveret.core.consumer_arguments import OFFSET, OFFSETS
from leveret.wire.codec import encode
from leveret.wire.methods import BasicConsume, BasicQos, ChannelOpen, ConfirmSelect, Method

if TYPE_CHECKING:
    from leveret.cluster.proxy.shard_connection import ShardConnection

Then = Callable[[Method], None]
NEWEST = ("next", "last")
PROPERTIES_AT, FLAGS_AT = 14, 12  # in a content header
BEFORE_HEADERS = (0x80, 0x40)  # flags of short texts that come before the table of headers
OFFSET_ENTRY = b"\x0fx-stream-offsetl"
PARTITION_ENTRY = b"\x12x-stream-partitionl"
NUMBER_BYTES = 8


def place_of(header: bytes) -> tuple[int, int] | None:
    """The partition and the offset that a delivery was read at; None when it does not say."""
    at = PROPERTIES_AT
    for flag in BEFORE_HEADERS:
        if header[FLAGS_AT] & flag:
            at += 1 + header[at]
    end = at + 4 + int.from_bytes(header[at : at + 4], "big")
    partition = _number(header, end, PARTITION_ENTRY)
    if partition is not None:
        end -= len(PARTITION_ENTRY) + NUMBER_BYTES
    offset = _number(header, end, OFFSET_ENTRY)
    return None if offset is None else (partition or 0, offset)


def _number(header: bytes, end: int, entry: bytes) -> int | None:
    """The number of the entry that ends there, if it is this one."""
    at = end - NUMBER_BYTES
    return int.from_bytes(header[at:end], "big") if header[at - len(entry) : at] == entry else None


class Reading:
    """The place of one consumer, in each partition that it reads."""

    def __init__(self, arguments: Mapping[str, Any], partitions: int, ticks: Callable[[], int] = ticks_us) -> None:
        """Begin where a consumer asked for, in a stream with so many partitions."""
        self._asked = arguments
        self._partitions = partitions
        self._ticks = ticks
        self._began_us = ticks()
        self._next: dict[int, int] = {}

    def delivered(self, header: bytes) -> None:
        place = place_of(header)
        if place is not None:
            self._next[place[0]] = place[1] + 1

    def arguments(self) -> dict[str, Any]:
        """What to ask the next owner for: to go on behind what was delivered."""
        starts = self._asked.get(OFFSETS, [self._asked.get(OFFSET, "next")] * self._partitions)
        return {**self._asked, OFFSETS: [self._next.get(at, self._start(each)) for at, each in enumerate(starts)]}

    def _start(self, asked: object) -> object:
        """Where to begin where nothing was delivered: what was to come then may be there now."""
        waited_s = (self._ticks() - self._began_us) // 1_000_000
        return f"{waited_s + 1}s" if asked in NEWEST else asked


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

    def _open(self) -> None:
        self.ask(ChannelOpen())
        self.ask(ConfirmSelect())
        if self._prefetch:
            self.limit(self._prefetch)

    # Talking

    def say(self, method: Method) -> None:
        """Send a method that is not answered."""
        self.shard_connection.method(self.number, encode(method))

    def ask(self, method: Method, then: Then | None = None) -> None:
        """Send a method, and go on with its answer; without `then` that is no news."""
        self._questions.append(PendingMethod(method, then))
        self.say(method)

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
        self.ask(BasicQos(0, prefetch, True))

    def consume(self, consumer: ProxyConsumer, then: Then | None) -> None:
        self.consumers[consumer.method.consumer_tag] = consumer
        self.ask(BasicQos(0, consumer.prefetch, False))
        self.ask(consumer.method, then)

    # Coming and going

    def reopen(self, held: Iterable[tuple[str, PackedName]]) -> None:
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

    def abandon(self) -> int:
        """Want no answers any more; gives how many are waited for."""
        waited = sum(each.then is not None for each in self._questions)
        self._questions.clear()
        return waited
