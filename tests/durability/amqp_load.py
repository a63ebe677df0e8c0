"""Publishers and consumers that hammer a server until it is gone, and remember exactly what it promised them.

A body is `PUBLISHER NUMBER` and padding. A message counts as confirmed when its confirm has come; an acknowledgement as
safe when a message that was published after it, on the same connection, was confirmed: the journal has one order.
"""

import random
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.protocols.amqp.wire import Client, Ended

BURST_MAX = 100
PREFETCH = 200
LARGE_BYTES = 300_000
LARGE_EVERY = 40
PRIORITIES = 3
MARKERS = "markers"
QUEUES: dict[str, m.QueueDeclare] = {
    "plain": m.QueueDeclare("plain", durable=True),
    "priority": m.QueueDeclare("priority", durable=True, arguments={"x-max-priority": PRIORITIES}),
    "quorum": m.QueueDeclare("quorum", durable=True, arguments={"x-queue-type": "quorum"}),
    "large": m.QueueDeclare("large", durable=True),
    MARKERS: m.QueueDeclare(MARKERS, durable=True, arguments={"x-max-length": 10}),
}
TARGETS = tuple(name for name in QUEUES if name != MARKERS)


class Id(NamedTuple):
    """A message: who published it, where, and as which one of his."""

    queue: str
    publisher: str
    number: int


def body_of(publisher: str, number: int, queue: str) -> bytes:
    """What a message carries: large ones go another way through the broker than small ones."""
    size = LARGE_BYTES if queue == "large" and number % LARGE_EVERY == LARGE_EVERY - 1 else 10 + number % 500
    return f"{publisher} {number} ".encode() + bytes(size)


def id_of(queue: str, body: bytes) -> Id:
    """Whose message a body is."""
    publisher, number, padding = body.split(b" ", 2)
    found = Id(queue, publisher.decode(), int(number))
    assert body == body_of(found.publisher, found.number, queue), f"the body of {found} was changed"
    assert not any(padding)
    return found


def priority_of(number: int) -> int:
    """Which priority a message of that number has."""
    return number % PRIORITIES


class Talker(threading.Thread):
    """A client in a thread of its own, which ends with the server; what went wrong otherwise is kept."""

    def __init__(self, connect: Callable[[], Client], name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._connect = connect
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._connect() as client:
                self.talk(client)
        except (Ended, ConnectionError):
            return
        except BaseException as error:
            self.error = error

    def talk(self, client: Client) -> None:
        raise NotImplementedError


class Confirms:
    """Counts publishes on a channel, and says which of them are confirmed."""

    def __init__(self) -> None:
        self.last = 0
        self._waiting: deque[tuple[int, Id]] = deque()

    def sent(self, message: Id) -> None:
        """A message was published."""
        self.last += 1
        self._waiting.append((self.last, message))

    def take(self, ack: m.BasicAck) -> list[Id]:
        """The messages that a confirm stands for."""
        if ack.multiple:
            found = []
            while self._waiting and self._waiting[0][0] <= ack.delivery_tag:
                found.append(self._waiting.popleft()[1])
            return found
        at = next(i for i, (tag, _) in enumerate(self._waiting) if tag == ack.delivery_tag)
        _, message = self._waiting[at]
        del self._waiting[at]
        return [message]

    def __bool__(self) -> bool:
        return bool(self._waiting)


class Publisher(Talker):
    """Publishes bursts to all queues in turn and waits for their confirms."""

    def __init__(self, connect: Callable[[], Client], name: str, seed: int) -> None:
        super().__init__(connect, name)
        self._chance = random.Random(seed)
        self.confirmed: set[Id] = set()
        self.sent = 0

    def talk(self, client: Client) -> None:
        client.call(1, m.ConfirmSelect())
        confirms = Confirms()
        while True:
            for _ in range(self._chance.randrange(1, BURST_MAX)):
                self.publish(client, confirms)
            while confirms:
                self.confirmed.update(confirms.take(client.expect(1, m.BasicAck)))

    def publish(self, client: Client, confirms: Confirms) -> None:
        self.sent += 1
        queue = TARGETS[self.sent % len(TARGETS)]
        properties = Properties(delivery_mode=2, priority=priority_of(self.sent))
        body = body_of(self.name, self.sent, queue)
        client.publish(1, m.BasicPublish("", queue), properties, body)
        confirms.sent(Id(queue, self.name, self.sent))


class Consumer(Talker):
    """Takes from one queue, acknowledges, and makes sure of it by a confirmed publish."""

    def __init__(self, connect: Callable[[], Client], queue: str, seed: int) -> None:
        super().__init__(connect, f"consumer of {queue}")
        self._queue = queue
        self._chance = random.Random(seed)
        self._deliveries: deque[tuple[m.BasicDeliver, bytes]] = deque()
        self._confirms = Confirms()
        self.taken: list[Id] = []
        self.asked: dict[Id, float] = {}  # when the acknowledgement was sent
        self.safe: set[Id] = set()

    def talk(self, client: Client) -> None:
        client.call(2, m.ChannelOpen())
        client.call(2, m.ConfirmSelect())
        client.call(1, m.BasicQos(prefetch_count=PREFETCH))
        client.call(1, m.BasicConsume(self._queue, "c"))
        while True:
            self.acknowledge(client, self._chance.randrange(1, PREFETCH // 2))
            self.make_sure(client)

    def acknowledge(self, client: Client, count: int) -> None:
        """Acknowledge so many messages, each or all at once."""
        multiple = self._chance.random() < 0.5
        settled: list[Id] = []
        for number in range(count):
            while not self._deliveries:
                self.listen(client)
            method, body = self._deliveries.popleft()
            message = id_of(self._queue, body)
            self.taken.append(message)
            settled.append(message)
            if not multiple or number == count - 1:
                self.asked.update(dict.fromkeys(settled, time.monotonic()))
                settled.clear()
                client.send(1, m.BasicAck(method.delivery_tag, multiple=multiple))

    def make_sure(self, client: Client) -> None:
        """Publish something and wait for its confirm: what was acknowledged before is on the disk then."""
        asked = set(self.asked)
        client.publish(2, m.BasicPublish("", MARKERS), Properties(delivery_mode=2), b"marker")
        self._confirms.sent(Id(MARKERS, self.name, 0))
        while self._confirms:
            self.listen(client)
        self.safe |= asked

    def listen(self, client: Client) -> None:
        """Take what comes next."""
        channel, method = client.any_method()
        if isinstance(method, m.BasicDeliver):
            self._deliveries.append((method, client.content(channel).body))
        else:
            assert isinstance(method, m.BasicAck), method
            self._confirms.take(method)


def drain(client: Client, queue: str) -> list[Id]:
    """Everything that waits in a queue, in the order that it is handed out; nothing waits there afterwards."""
    found = []
    client.call(1, m.BasicQos(prefetch_count=0))
    while isinstance(client.call(1, m.BasicGet(queue, no_ack=True)), m.BasicGetOk):
        body = client.content(1).body
        if queue != MARKERS:
            found.append(id_of(queue, body))
    return found
