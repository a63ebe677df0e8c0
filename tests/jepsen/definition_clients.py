"""A client that changes definitions by one node, and looks at each by another one as soon as it is answered.

Each name is an exchange, a queue and a binding between them. It stands for some rounds before it is removed, so that
faults come in between. Nobody else uses it, and after a change that is not answered nobody does any more: so what was
answered last is what every node has to say.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.jepsen.history import CHANGE, FAIL, GONE, INVOKE, LOOK, OK, THERE, UNKNOWN, History
from tests.jepsen.wanderer import Connect, Gone, Wanderer
from tests.protocols.amqp.wire import Client, Ended

DEFINITIONS = "definitions"
"""Where the history has them, as messages have their queue."""
STANDING = 3
CHANGING, LOOKING = 1, 2  # channels
NOT_FOUND = 404
PERSISTENT = Properties(delivery_mode=2)
EXCHANGE, QUEUE, BINDING, MESSAGE = "exchange", "queue", "binding", "message"


class Step(NamedTuple):
    """A change of what has a name, and what it makes of which part of it."""

    method: Callable[[str], m.Method]
    part: str
    state: str


MAKE = (
    Step(lambda name: m.ExchangeDeclare(name, "direct", durable=True), EXCHANGE, THERE),
    Step(lambda name: m.QueueDeclare(name, durable=True), QUEUE, THERE),
    Step(lambda name: m.QueueBind(name, name, name), BINDING, THERE),
)
REMOVE = (
    Step(lambda name: m.QueueUnbind(name, name, name), BINDING, GONE),
    Step(lambda name: m.QueueDelete(name), QUEUE, GONE),
    Step(lambda name: m.ExchangeDelete(name), EXCHANGE, GONE),
)


class Definer(Wanderer[Client]):
    """Makes and removes things, by two nodes in turn."""

    lost = (Ended, Gone, OSError)

    def __init__(self, name: str, connect: Connect[Client], first: int, history: History, pause_s: float) -> None:
        """`pause_s` is the time between two rounds."""
        super().__init__(name, connect, first, history)
        self._pause_s = pause_s
        self._numbers = itertools.count(1)
        self._standing: deque[str] = deque()
        self._looks = {EXCHANGE: self._look_for_exchange, QUEUE: self._look_for_queue, BINDING: self._look_for_binding}

    def talk(self, client: Client, life: int) -> None:
        with self._connect(self._first + life + 1) as other:
            for each in (client, other):
                ask(each, CHANGING, m.ConfirmSelect())
            nodes = itertools.cycle([(client, other), (other, client)])
            while not self.ended.is_set():
                self._round(nodes)
                self.ended.wait(self._pause_s)

    def _round(self, nodes: itertools.cycle[tuple[Client, Client]]) -> None:
        """Make one more, look at the oldest, and remove it when there are enough."""
        name = f"{self.name}.{next(self._numbers)}"
        self._take(MAKE, name, nodes)
        self._standing.append(name)
        for look in self._looks.values():
            look(self._standing[0], next(nodes)[1])
        if len(self._standing) > STANDING:
            self._take(REMOVE, self._standing.popleft(), nodes)

    def _take(self, steps: tuple[Step, ...], name: str, nodes: itertools.cycle[tuple[Client, Client]]) -> None:
        for step in steps:
            changing, looking = next(nodes)
            self._note(CHANGE, INVOKE, step.part, name, step.state)
            answer = ask(changing, CHANGING, step.method(name))
            assert answer is not None, f"{step.method(name)}: what was told to be there is not"
            self._note(CHANGE, OK, step.part, name, step.state)
            self._looks[step.part](name, looking)

    def _note(self, what: str, outcome: str, part: str, name: str, state: str) -> None:
        self.history.note(self.name, what, outcome, DEFINITIONS, f"{part} {name} {state}")

    # Looks

    def _look_for_exchange(self, name: str, client: Client) -> None:
        found = look(client, m.ExchangeDeclare(name, passive=True))
        self._note(LOOK, OK, EXCHANGE, name, GONE if found is None else THERE)

    def _look_for_queue(self, name: str, client: Client) -> None:
        """Look for a queue, and for a message that was confirmed there."""
        found = look(client, m.QueueDeclare(name, passive=True))
        self._note(LOOK, OK, QUEUE, name, GONE if found is None else THERE)
        if isinstance(found, m.QueueDeclareOk):
            self._note(LOOK, OK, MESSAGE, name, THERE if found.message_count else GONE)

    def _look_for_binding(self, name: str, client: Client) -> None:
        """Publish: what is not routed comes back before it is confirmed."""
        self._note(CHANGE, INVOKE, MESSAGE, name, THERE)
        client.publish(CHANGING, m.BasicPublish(name, name, mandatory=True), PERSISTENT, name.encode())
        method, state = client.any_method()[1], THERE
        if isinstance(method, m.BasicReturn):
            client.content(CHANGING)
            method, state = client.any_method()[1], GONE
        if isinstance(method, m.BasicNack):
            self._note(CHANGE, FAIL, MESSAGE, name, THERE)
        elif isinstance(method, m.BasicAck):
            self._note(LOOK, OK, BINDING, name, state)
            self._note(CHANGE, OK if state == THERE else UNKNOWN, MESSAGE, name, THERE)
        else:
            raise Gone(method)


def ask(client: Client, channel: int, method: m.Method) -> m.Method | None:
    """What is answered; None and a closed channel when there is no such thing."""
    client.send(channel, method)
    answer = client.any_method()[1]
    if isinstance(answer, m.ChannelClose) and answer.reply_code == NOT_FOUND:
        client.send(channel, m.ChannelCloseOk())
        return None
    if answer.spec.name not in method.spec.replies:
        raise Gone(answer)
    return answer


def look(client: Client, method: m.Method) -> m.Method | None:
    """The same on a channel of its own, which is closed in any case."""
    ask(client, LOOKING, m.ChannelOpen())
    answer = ask(client, LOOKING, method)
    if answer is not None:
        ask(client, LOOKING, m.ChannelClose(200, "bye"))
    return answer
