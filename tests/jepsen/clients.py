"""Clients that publish and consume through any node, go to the next one when theirs is lost, and write everything down.

A body is the line of its publisher and a number, "p0.3 17": a line is one connection, in which order is promised.
"""

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence

from leveret.amqp import methods as m
from leveret.core.properties import Properties
from tests.amqp.wire import Client, Ended
from tests.jepsen.history import DELIVER, FAIL, INVOKE, OK, PUBLISH, UNKNOWN, History

PREFETCH = 50
BURST = 12
PAUSE_S = 0.05  # between bursts, and before another attempt to connect
PATIENCE_S = 5.0  # then a client goes to another node
PERSISTENT = Properties(delivery_mode=2)

Connect = Callable[[int], Client]
"""Connects to the node of a number, modulo their count."""


class Gone(Exception):
    """The server closes the connection or the channel, and says why."""


class Wanderer(threading.Thread):
    """A client in a thread of its own."""

    def __init__(self, name: str, connect: Connect, first: int, history: History) -> None:
        super().__init__(name=name, daemon=True)
        self._connect = connect
        self._first = first
        self.history = history
        self.ended = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        """Talk to one node after the other."""
        try:
            for life in itertools.count():
                if self.ended.is_set():
                    return
                self._live(life)
        except BaseException as error:
            self.error = error

    def _live(self, life: int) -> None:
        """Talk until the node is gone."""
        try:
            with self._connect(self._first + life) as client:
                self.talk(client, life)
        except (Ended, Gone, OSError):
            self.ended.wait(PAUSE_S)

    def talk(self, client: Client, life: int) -> None:
        """Do what this client is for, on a connection with an open channel."""
        raise NotImplementedError

    def end(self) -> None:
        """Let it finish what it does, and wait for that."""
        self.ended.set()
        self.join(2 * PATIENCE_S)
        assert not self.is_alive(), f"{self.name} does not end"
        assert self.error is None, f"{self.name}: {self.error!r}"


class Publisher(Wanderer):
    """Publishes to all queues in turn, a burst at a time, and waits for what becomes of it."""

    def __init__(self, name: str, connect: Connect, first: int, history: History, queues: Sequence[str]) -> None:
        super().__init__(name, connect, first, history)
        self._queues = queues

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
                self.ended.wait(PAUSE_S)
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


class Consumer(Wanderer):
    """Takes everything out of one queue."""

    def __init__(self, name: str, connect: Connect, first: int, history: History, queue: str) -> None:
        super().__init__(name, connect, first, history)
        self._queue = queue

    def talk(self, client: Client, life: int) -> None:
        client.call(1, m.BasicQos(prefetch_count=PREFETCH))
        client.call(1, m.BasicConsume(self._queue, "c"))
        while not self.ended.is_set():
            method = client.any_method()[1]
            if not isinstance(method, m.BasicDeliver):
                raise Gone(method)
            body = client.content(1).body.decode()
            self.history.note(self.name, DELIVER, OK, self._queue, body, method.redelivered)
            client.send(1, m.BasicAck(method.delivery_tag))
