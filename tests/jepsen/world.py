"""A cluster of three nodes on a pair of PostgreSQL and one etcd, its clients, and the faults that they meet."""

import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from leveret.amqp import methods as m
from tests.amqp.wire import Client, SocketLink
from tests.cluster.etcd_process import EtcdProcess
from tests.jepsen.clients import PATIENCE_S, Consumer, Publisher
from tests.jepsen.history import DELIVER, FAULT, INVOKE, OK, PUBLISH, History
from tests.jepsen.pair import Pair
from tests.node.processes import LEASE_S, Nodes
from tests.server_process import TRACEBACK

NODES = ("a", "b", "c")
QUEUES = tuple(f"q{number}" for number in range(6))
AWAY_S = (0.2, 3.0 * LEASE_S)  # some faults are over before a lease ends, others are not
SCHEMA = "jepsen"
HEAL_S = 60.0
CONFIRMED_MIN = 20  # of each queue, before the next fault
POLL_S = 0.02


class World:
    """Everything that runs; a fault is one call of `meet`."""

    def __init__(self, folder: Path, seed: int, history: History) -> None:
        self.folder = folder
        self.history = history
        self.chance = random.Random(seed)
        self.stack = ExitStack()
        self.etcd = EtcdProcess(folder)
        self.postgres = Pair()
        self.publishers: list[Publisher] = []
        self.consumers: list[Consumer] = []
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(self.postgres)
            stack.enter_context(self.etcd)
            self.nodes = stack.enter_context(Nodes(self.folder, self.etcd.url, self.postgres.new_url(SCHEMA)))
            self.nodes.start(*NODES)
            stack.callback(self._end_clients)
            self._start_clients()
            self.stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stack.close()

    # Clients

    def connect(self, number: int) -> Client:
        """A client with one open channel."""
        port = self.nodes.port(NODES[number % len(NODES)])
        link = SocketLink("127.0.0.1", port)
        link.socket.settimeout(PATIENCE_S)
        try:
            return Client(link).open()
        except BaseException:
            link.close()
            raise

    def _start_clients(self) -> None:
        with self.connect(0) as client:
            for queue in QUEUES:
                client.call(1, m.QueueDeclare(queue, durable=True))
            client.leave()
        for number, queue in enumerate(QUEUES):
            self.consumers.append(Consumer(f"c{number}", self.connect, number, self.history, queue))
        for number in range(len(NODES)):
            self.publishers.append(Publisher(f"p{number}", self.connect, number, self.history, QUEUES))
        for each in [*self.consumers, *self.publishers]:
            each.start()

    def _end_clients(self) -> None:
        for each in [*self.publishers, *self.consumers]:
            each.ended.set()

    # Faults

    def meet(self, kind: str) -> None:
        """Let a fault happen and be over, and wait until every queue takes messages again."""
        self.history.note(kind, FAULT, INVOKE)
        FAULTS[kind](self)
        self.history.note(kind, FAULT, OK)
        self.look()
        self.wait_for_confirms(kind)

    def wait_for_confirms(self, after: str) -> None:
        """Wait until every queue has confirmed some messages from now on."""
        position = len(self.history.since())
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
        for name in NODES:
            for line in self.nodes.log(name).splitlines():
                if TRACEBACK in line and line not in self.complaints:
                    self.complaints.append(line)
            if not self.nodes.runs(name):
                self.complaints.append(f"node {name} ended by itself")
                self.nodes.kill(name)
                self.nodes.start(name)

    def owner(self) -> str:
        """A node that owns a shard: a fault of one that has none would say little."""
        rows = self.postgres.primary.sql(
            f"select distinct owner from {SCHEMA}.leveret_shard where owner <> '' order by owner"
        )
        return str(self.chance.choice(rows)[0])

    def away(self) -> None:
        """The time that a fault lasts."""
        time.sleep(self.chance.uniform(*AWAY_S))

    def finish(self) -> None:
        """Publish no more; wait until all that was confirmed has come, and everybody has ended."""
        for publisher in self.publishers:
            publisher.end()
        deadline = time.monotonic() + HEAL_S
        while self._missing() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        for consumer in self.consumers:
            consumer.ended.set()
        for consumer in self.consumers:
            consumer.end()

    def _missing(self) -> set[tuple[str, str]]:
        operations = self.history.since()
        safe = {(each.queue, each.message) for each in operations if each.what == PUBLISH and each.outcome == OK}
        return safe - {(each.queue, each.message) for each in operations if each.what == DELIVER}


def kill(world: World) -> None:
    """A node ends as by a power cut, and comes back."""
    name = world.owner()
    world.nodes.kill(name)
    world.away()
    world.nodes.start(name)


def pause(world: World) -> None:
    """A node stands still, and goes on as if nothing had been."""
    name = world.owner()
    world.nodes.signal(name, signal.SIGSTOP)
    world.away()
    world.nodes.signal(name, signal.SIGCONT)


def roll(world: World) -> None:
    """Every node is restarted, one after the other."""
    for name in NODES:
        code = world.nodes.stop(name)
        if code:
            world.complaints.append(f"node {name} ended with {code}")
        world.nodes.start(name)


def crash_postgres(world: World) -> None:
    """PostgreSQL ends without a checkpoint, and comes back."""
    world.postgres.primary.crash()
    world.away()
    world.postgres.primary.start()


def fail_over(world: World) -> None:
    """The primary ends for good; its standby takes its place, and gets a standby itself."""
    world.postgres.fail_over()


def kill_etcd(world: World) -> None:
    """etcd ends as by a power cut, and comes back."""
    world.etcd.kill()
    world.away()
    world.etcd.start()


def pause_etcd(world: World) -> None:
    """etcd stands still."""
    world.etcd.signal(signal.SIGSTOP)
    world.away()
    world.etcd.signal(signal.SIGCONT)


FAULTS: dict[str, Callable[[World], None]] = {
    "kill a node": kill,
    "pause a node": pause,
    "rolling restart": roll,
    "crash PostgreSQL": crash_postgres,
    "fail PostgreSQL over": fail_over,
    "kill etcd": kill_etcd,
    "pause etcd": pause_etcd,
}
