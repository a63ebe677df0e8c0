"""A client that says much at once on several channels while shards come and go: each channel keeps its order."""

import random
from collections.abc import Iterator

import pytest

from leveret.core.properties import content
from leveret.wire.codec import encode
from leveret.wire.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    BasicPublish,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from tests.cluster.proxy_world import SHARDS, FrontWorld, place
from tests.protocols.amqp.client import Client, Received

QUEUES = list({place(name): name for name in (f"q{number}" for number in range(50))}.values())
CHANNELS = range(1, 4)
STEPS = 200
SIZES = (0, 0, 20, 5_000, 50_000)


class Chaos:
    """What a client says, and what happens to its shards meanwhile."""

    def __init__(self, world: FrontWorld, seed: int) -> None:
        assert len(QUEUES) == SHARDS
        self.world = world
        self.client = world.client()
        self._choice = random.Random(seed)
        self._unsent = bytearray()
        self.published: dict[int, list[tuple[str, bytes]]] = {channel: [] for channel in CHANNELS}
        self.asked: dict[int, list[str]] = {channel: [] for channel in CHANNELS}
        for queue in QUEUES:
            self.client.call(QueueDeclare(queue, durable=True), QueueDeclareOk)
        for channel in CHANNELS:
            if channel > 1:
                self.client.open_channel(channel)
            self.client.call(ConfirmSelect(), ConfirmSelectOk, channel)

    def run(self) -> list[Received]:
        """Say it all, let every shard be there, and leave; give what was answered."""
        said = [self._publish, self._publish, self._ask, self._send]
        happens = [self._lose, self._find, self._silence, self._block]
        for _ in range(STEPS):
            self._choice.choice(said + happens)()
        self._end()
        return self.client.received()

    def _publish(self) -> None:
        channel, queue = self._choice.choice(CHANNELS), self._choice.choice(QUEUES)
        number = len(self.published[channel]) + 1
        body = b"%d %d " % (channel, number) + bytes(self._choice.choice(SIZES))
        self.published[channel].append((queue, body))
        self.client.writer.content(channel, encode(BasicPublish("", queue)), *content(None, body))

    def _ask(self) -> None:
        channel, queue = self._choice.choice(CHANNELS), self._choice.choice(QUEUES)
        self.asked[channel].append(queue)
        self.client.writer.method(channel, encode(QueueDeclare(queue, passive=True)))

    def _send(self) -> None:
        """Some of it, cut anywhere."""
        self._unsent += self.client.writer.take()
        size = self._choice.choice([9, 100, 3_000, len(self._unsent)])
        self.client.send_bytes(bytes(self._unsent[:size]))
        del self._unsent[:size]

    def _lose(self) -> None:
        shard_id = place(self._choice.choice(QUEUES))
        for shard_connection in [
            each for each in self.world.proxied_clients if each.shard_id == shard_id and each.attached
        ]:
            self.world.proxied_clients[shard_connection].abort()
        self.world.work()

    def _find(self) -> None:
        self.world.reattach()

    def _silence(self) -> None:
        self.world.deaf = not self.world.deaf
        self.world.work()

    def _block(self) -> None:
        for shard_connection in [each for each in self.world.callers if each.attached][:1]:
            shard_connection.held(not shard_connection.busy)

    def _end(self) -> None:
        self.world.deaf = False
        for shard_connection in self.world.callers:
            shard_connection.held(False)
        self.client.send_bytes(bytes(self._unsent + self.client.writer.take()))
        self.client.send(ConnectionClose(200, "", 0, 0), 0)
        self.world.reattach()


@pytest.fixture(params=range(20))
def chaos(world: FrontWorld, request: pytest.FixtureRequest) -> Chaos:
    return Chaos(world, request.param)


def test_everything_is_answered_once_and_in_its_order(world: FrontWorld, chaos: Chaos) -> None:
    answers = chaos.run()
    assert isinstance(answers[-1].method, ConnectionCloseOk)
    there = {queue: list(bodies(world.client(), queue)) for queue in QUEUES}
    for channel in CHANNELS:
        methods = [each.method for each in answers if each.channel == channel]
        assert [each.queue for each in methods if isinstance(each, QueueDeclareOk)] == chaos.asked[channel]
        refused = set(refusals(methods))
        for queue in QUEUES:
            sent = [(number, body) for number, (to, body) in enumerate(chaos.published[channel], 1) if to == queue]
            mine = [body for body in there[queue] if body.startswith(b"%d " % channel)]
            # What was refused may be there as well.
            assert mine == [body for number, body in sent if number not in refused or body in mine]


def refusals(methods: list[Method]) -> Iterator[int]:
    """The numbers of what was refused; each number is spoken of once."""
    spoken: set[int] = set()
    for each in methods:
        if isinstance(each, BasicAck | BasicNack):
            first = max(spoken, default=0) + 1 if each.multiple else each.delivery_tag
            assert each.delivery_tag not in spoken
            spoken.update(range(first, each.delivery_tag + 1))
            if isinstance(each, BasicNack):
                yield each.delivery_tag


def bodies(client: Client, queue: str) -> Iterator[bytes]:
    """What is in a queue."""
    while True:
        client.send(BasicGet(queue, True))
        (came,) = client.received()
        if isinstance(came.method, BasicGetEmpty):
            return
        yield came.body
