"""A cluster of nodes on a footing, its clients, and the faults that they meet."""

import random
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg

from leveret.amqp import methods as m
from tests.amqp.wire import Client, SocketLink
from tests.jepsen.clients import Consumer, Publisher
from tests.jepsen.footing import Faults, Footing
from tests.jepsen.history import DELIVER, FAULT, INVOKE, OK, PUBLISH, History
from tests.jepsen.sqs_clients import Receiver, Sender, SqsLink
from tests.jepsen.wanderer import PATIENCE_S
from tests.node.processes import LEASE_S, SHARDS, Nodes
from tests.server_process import TRACEBACK

AMQP_QUEUES = tuple(f"q{number}" for number in range(6))
STANDARD_QUEUES = ("s0", "s1")
FIFO_QUEUES = ("s2.fifo", "s3.fifo")
SQS_QUEUES = STANDARD_QUEUES + FIFO_QUEUES
QUEUES = AMQP_QUEUES + SQS_QUEUES
AWAY_S = (0.2, 3.0 * LEASE_S)  # some faults are over before a lease ends, others are not
SCHEMA = "jepsen"
LOGIN = ("hare", "quick")  # guest would be let in from this machine only
HEAL_S = 60.0
REST_S = 150.0  # until all has come: what a lost answer has leased stays so for as long as a clock had been ahead
CONFIRMED_MIN = 10  # of each queue, before the next fault
POLL_S = 0.05


class World:
    """Everything that runs; a fault is one call of `meet`."""

    def __init__(
        self, folder: Path, footing: Footing, faults: Faults, seed: int, history: History, pause_s: float
    ) -> None:
        """`pause_s` is how long clients rest between two bursts."""
        self.folder = folder
        self.footing = footing
        self.faults = faults
        self.history = history
        self.chance = random.Random(seed)
        self.names = list(footing.nodes)
        self.complaints: list[str] = []
        self._pause_s = pause_s
        self._stack = ExitStack()
        self._publishers: list[Publisher | Sender] = []
        self._consumers: list[Consumer | Receiver] = []

    def __enter__(self) -> Self:
        footing = self.footing
        with ExitStack() as stack:
            flags = ["--sqs-auth", "off", "--default-user", LOGIN[0], *footing.flags]
            nodes = Nodes(self.folder, footing.etcd, footing.store(SCHEMA), SHARDS, LEASE_S, *flags)
            for name, machine in footing.nodes.items():
                environ = {**machine.environ, "LEVERET_DEFAULT_PASSWORD": LOGIN[1]}
                nodes.machines[name] = replace(machine, environ=environ)
            self.nodes = stack.enter_context(nodes)
            self.nodes.start(*self.names)
            stack.callback(self._end_clients)
            self._start_clients()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    # Clients

    def connect(self, number: int) -> Client:
        """A client of AMQP with one open channel."""
        name = self.names[number % len(self.names)]
        link = SocketLink(self.footing.nodes[name].address, self.nodes.port(name), PATIENCE_S)
        try:
            return Client(link).open(login=LOGIN)
        except BaseException:
            link.close()
            raise

    def connect_sqs(self, number: int) -> SqsLink:
        """A client of SQS."""
        name = self.names[number % len(self.names)]
        return SqsLink(self.footing.nodes[name].address, self.nodes.ports(name)["sqs"])

    def _start_clients(self) -> None:
        with self.connect(0) as client:
            for queue in AMQP_QUEUES:
                client.call(1, m.QueueDeclare(queue, durable=True))
            client.leave()
        with self.connect_sqs(0) as link:
            for queue in SQS_QUEUES:
                link.create(queue)
        history, pause_s = self.history, self._pause_s
        for number, queue in enumerate(AMQP_QUEUES):
            self._consumers.append(Consumer(f"c{number}", self.connect, number, history, queue))
        for number, queue in enumerate(SQS_QUEUES):
            self._consumers.append(Receiver(f"r{number}", self.connect_sqs, number, history, queue))
        for number in range(len(self.names)):
            self._publishers.append(Publisher(f"p{number}", self.connect, number, history, AMQP_QUEUES, pause_s))
            sender = Sender(f"s{number}", self.connect_sqs, number, history, SQS_QUEUES, pause_s / 4)
            self._publishers.append(sender)
        for each in [*self._consumers, *self._publishers]:
            each.start()

    def _end_clients(self) -> None:
        for each in [*self._publishers, *self._consumers]:
            each.ended.set()

    # Faults

    def meet(self, kind: str) -> None:
        """Let a fault happen and be over, and wait until every queue takes messages again."""
        self.history.note(kind, FAULT, INVOKE)
        try:
            self.faults[kind](self)
        except (AssertionError, OSError, psycopg.Error) as error:
            self.complaints.append(f"{kind}: {error}")  # the others are to happen all the same
        self.history.note(kind, FAULT, OK)
        self.look()
        self.wait_for_confirms(kind)

    def wait_for_confirms(self, after: str) -> None:
        """Wait until every queue has confirmed some messages from now on."""
        position = self.history.length
        deadline = time.monotonic() + HEAL_S
        while (missing := self._silent(position)) and time.monotonic() < deadline:
            time.sleep(POLL_S)
        if missing:
            self.complaints.append(f"{sorted(missing)} confirmed too little for {HEAL_S:.0f} s after {after}")

    def _silent(self, position: int) -> set[str]:
        operations = self.history.since(position)
        counts = Counter(each.queue for each in operations if each.what == PUBLISH and each.outcome == OK)
        return {queue for queue in QUEUES if counts[queue] < CONFIRMED_MIN}

    def look(self) -> None:
        """Complain about nodes that ended by themselves or met what they did not expect; start what has ended."""
        for name in self.names:
            running = name in self.nodes.names
            lines = self.nodes.log(name).splitlines() if running else []
            self.complaints += [line for line in lines if TRACEBACK in line and line not in self.complaints]
            if not running or not self.nodes.runs(name):
                self.complaints.append(f"node {name} ended by itself")
                if running:
                    self.nodes.kill(name)
                self.nodes.start(name)

    def owner(self) -> str:
        """A node that owns a shard: a fault of one that has none would say little."""
        rows = self.footing.sql(f"select distinct owner from {SCHEMA}.leveret_shard where owner <> '' order by owner")
        return str(self.chance.choice(rows)[0])

    def away(self, shortest_s: float = AWAY_S[0], longest_s: float = AWAY_S[1]) -> None:
        """The time that a fault lasts."""
        time.sleep(self.chance.uniform(shortest_s, longest_s))

    def finish(self) -> None:
        """Publish no more; wait until all that was confirmed has come, and everybody has ended."""
        for publisher in self._publishers:
            publisher.end()
        deadline = time.monotonic() + REST_S
        operations = self.history.since()
        missing = {(each.queue, each.message) for each in operations if each.what == PUBLISH and each.outcome == OK}
        position = 0
        while time.monotonic() < deadline:
            come = self.history.since(position)
            position += len(come)
            missing -= {(each.queue, each.message) for each in come if each.what == DELIVER}
            if not missing:
                break
            time.sleep(POLL_S)
        for consumer in self._consumers:
            consumer.ended.set()
        for consumer in self._consumers:
            consumer.end()
