"""Clients of AMQP that publish and consume through any node.

A body is the line of its publisher and a number, "p0.3 17": a line is one connection, in which order is promised.
"""

import itertools
from collections import deque
from collections.abc import Sequence

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.jepsen.history import DELIVER, FAIL, INVOKE, OK, PUBLISH, UNKNOWN, History
from tests.jepsen.wanderer import LATER_S, Connect, Gone, Wanderer
from tests.protocols.amqp.wire import Client, Ended

PREFETCH = 50
BURST = 12
PERSISTENT = Properties(delivery_mode=2)


class Publisher(Wanderer[Client]):
    """Publishes to all queues in turn, a burst at a time, and waits for what becomes of it."""

    lost = (Ended, Gone, OSError)

    def __init__(
        self, name: str, connect: Connect[Client], first: int, history: History, queues: Sequence[str], pause_s: float
    ) -> None:
        """`pause_s` is the time between two bursts."""
        super().__init__(name, connect, first, history)
        self._queues = queues
        self._pause_s = pause_s

    def talk(self, client: Client, life: int) -> None:
        client.call(1, m.ConfirmSelect())
        line = f"{self.name}.{life}"
        waiting: deque[tuple[int, str]] = deque()
        numbers = itertools.count(1)
        try:
            while not self.ended.is_set():
                for number in itertools.islice(numbers, BURST):
                    queue = self._queues[number % len(self._queues)]
                    waiting.append((number, queue))
                    self.history.note(line, PUBLISH, INVOKE, queue, f"{line} {number}")
                    client.publish(1, m.BasicPublish("", queue), PERSISTENT, f"{line} {number}".encode())
                while waiting:
                    self._hear(client.any_method()[1], line, waiting)
                self.ended.wait(self._pause_s)
        finally:
            for number, queue in waiting:
                self.history.note(line, PUBLISH, UNKNOWN, queue, f"{line} {number}")

    def _hear(self, method: m.Method, line: str, waiting: deque[tuple[int, str]]) -> None:
        """Note what became of publishes."""
        if not isinstance(method, m.BasicAck | m.BasicNack):
            raise Gone(method)
        outcome = OK if isinstance(method, m.BasicAck) else FAIL
        last, multiple = method.delivery_tag, method.multiple
        for number, queue in [each for each in waiting if each[0] == last or (multiple and each[0] < last)]:
            waiting.remove((number, queue))
            self.history.note(line, PUBLISH, outcome, queue, f"{line} {number}")


class Consumer(Wanderer[Client]):
    """Takes everything out of one queue."""

    lost = (Ended, Gone, OSError)
    pause_s = LATER_S

    def __init__(
        self, name: str, connect: Connect[Client], first: int, history: History, queue: str, held: int = 1
    ) -> None:
        """It acknowledges when it has so many, all at once."""
        super().__init__(name, connect, first, history)
        self._queue = queue
        self._held = held

    def talk(self, client: Client, life: int) -> None:
        client.call(1, m.BasicQos(prefetch_count=PREFETCH))
        client.call(1, m.BasicConsume(self._queue, "c"))
        while not self.ended.is_set():
            method = client.any_method()[1]
            if not isinstance(method, m.BasicDeliver):
                raise Gone(method)
            body = client.content(1).body.decode()
            self.history.note(f"{self.name}.{life}", DELIVER, OK, self._queue, body, method.redelivered)
            if method.delivery_tag % self._held == 0:
                client.send(1, m.BasicAck(method.delivery_tag, self._held > 1))
