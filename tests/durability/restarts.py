"""Kill a server, or the nodes of a cluster, while dead letters are made; count what was confirmed and is lost.

    python -m tests.durability.restarts [--rounds N] [--single | --cluster] [page]

In each round publishers and rejecting consumers of all cases are at work when the process is killed. After the last
round every obstacle is removed, everything is read, and each case is a row of the table. The page, if one is named,
gets the tables as its transcript `restarts`.
"""

import argparse
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
import urllib.request
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pika
from pika.exceptions import AMQPError, NackError

from examples.cluster.machine import NAMES, running, spread
from tests.cluster.processes import Nodes
from tests.server_process import ServerProcess
from tests.transcripts import transcribe

ROUNDS = 5
CONFIRMED = (20, 80)  # of each case, before a kill
AFTER = 3  # of each case, confirmed after a failover, before the killed node is started again
PATIENCE_S = 120.0
QUIET_S = 3.0  # a duplicate that has not come by then does not count
POLL_S = 0.02
PREFETCH = 20
TTL_MS = 50
REFUSING = "refusing"  # targets that refuse: a policy gives them room for nothing
HEADINGS = ("case", "confirmed", "received", "lost", "duplicated")
ENDINGS = ("rejected", "expired", "delivery_limit")
OBSTACLES = {"": "the target takes them", "refuses": "the target refuses them", "unrouted": "there is no route"}
MODES = {None: "absent", 1: "1", 2: "2"}


@dataclass
class Case:
    """One row: a quorum queue whose messages stay, or become dead letters by an ending and meet an obstacle."""

    number: int
    title: str
    delivery_mode: int | None = None
    ending: str = ""
    obstacle: str = ""
    confirmed: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def source(self) -> str:
        """The quorum queue."""
        return f"source.{self.number}"

    @property
    def target(self) -> str:
        """Where its messages are at the end."""
        place = REFUSING if self.obstacle == "refuses" else "target"
        return f"{place}.{self.number}" if self.ending else self.source

    @property
    def arguments(self) -> dict[str, Any]:
        """How the quorum queue is declared."""
        found: dict[str, Any] = {"x-queue-type": "quorum"}
        if self.ending:
            found |= {"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish"}
            found |= {"x-dead-letter-exchange": f"dead.{self.number}", "x-dead-letter-routing-key": "dead"}
        own = {"expired": {"x-message-ttl": TTL_MS}, "delivery_limit": {"x-delivery-limit": 0}}
        return found | own.get(self.ending, {})

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        twice = self.received.total() - len(self.received)
        return (self.title, *map(str, (len(self.confirmed), len(self.received), len(self.lost), twice)))

    @property
    def lost(self) -> set[str]:
        """What was confirmed and did not come."""
        return self.confirmed - self.received.keys()


def cases() -> list[Case]:
    """All rows."""
    kept = [(f"quorum queue, delivery_mode {name}", mode, "", "") for mode, name in MODES.items()]
    dead = [
        (f"at-least-once, {ending}, {told}", None, ending, obstacle)
        for ending in ENDINGS
        for obstacle, told in OBSTACLES.items()
    ]
    return [Case(number, *rest) for number, rest in enumerate([*kept, *dead])]


# What is killed


class Target(Protocol):
    """A server or a cluster."""

    title: str

    def connect(self) -> pika.BlockingConnection:
        """A client whose connection may end with what is killed next."""

    def http_port(self) -> int:
        """Where the management API answers."""

    def kill(self, works_again: Callable[[], None]) -> None:
        """Kill what the next round is about; `works_again` waits until every case confirms."""

    def restore(self) -> None:
        """Start what was killed."""


class SingleServer:
    """One server with its journal in files."""

    title = "one server, kill -9 and restart"

    def __init__(self, folder: Path) -> None:
        self.server = ServerProcess(folder).start()

    def connect(self) -> pika.BlockingConnection:
        return pika.BlockingConnection(pika.URLParameters(self.server.url))

    def http_port(self) -> int:
        return self.server.ports["http"]

    def kill(self, works_again: Callable[[], None]) -> None:
        self.server.kill()

    def restore(self) -> None:
        self.server.start()


class ClusterOfNodes:
    """Three nodes; each kill is that of the next node, so that every queue loses its owner in turn."""

    title = "three nodes on PostgreSQL, kill -9 of the owner and failover"

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._victims = itertools.cycle(NAMES)
        self.victim = next(self._victims)
        self._survivors = itertools.cycle(range(len(NAMES) - 1))

    def connect(self) -> pika.BlockingConnection:
        names = [name for name in NAMES if name != self.victim]
        return self.nodes.connect(names[next(self._survivors)])

    def http_port(self) -> int:
        return self.nodes.http_port(next(name for name in NAMES if name != self.victim))

    def kill(self, works_again: Callable[[], None]) -> None:
        self.nodes.kill(self.victim)
        works_again()

    def restore(self) -> None:
        self.nodes.start(self.victim)
        spread(self.nodes)
        self.victim = next(self._victims)


# Clients


class Talker(threading.Thread):
    """A client of one case, which ends when it is told to, or with its server; other errors are kept."""

    def __init__(self, case: Case, connect: Callable[[], pika.BlockingConnection], ended: threading.Event) -> None:
        super().__init__(name=f"{type(self).__name__} of {case.source}", daemon=True)
        self.case = case
        self.ended = ended
        self.error: BaseException | None = None
        self._connect = connect

    def run(self) -> None:
        try:
            with suppress(AMQPError, OSError):
                connection = self._connect()
                self.talk(connection)
                connection.close()
        except BaseException as error:
            self.error = error

    def talk(self, connection: pika.BlockingConnection) -> None:
        raise NotImplementedError


class Publisher(Talker):
    """Publishes one message after the other; one that is not confirmed is not published again."""

    def talk(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        channel.confirm_delivery()
        properties = pika.BasicProperties(delivery_mode=self.case.delivery_mode)
        while not self.ended.is_set():
            body = f"{self.case.number} {next(self.case.numbers)}"
            with suppress(NackError):
                channel.basic_publish("", self.case.source, body.encode(), properties)
                self.case.confirmed.add(body)


class Rejecter(Talker):
    """Makes dead letters of everything in a queue."""

    def talk(self, connection: pika.BlockingConnection) -> None:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=PREFETCH)
        for method, _, _ in channel.consume(self.case.source, inactivity_timeout=POLL_S):
            if self.ended.is_set():
                break
            if method is not None:
                channel.basic_nack(method.delivery_tag, requeue=self.case.ending == "delivery_limit")


# The rounds


class Trial:
    """All cases on one target."""

    def __init__(self, target: Target, seed: int, confirmed: tuple[int, int] = CONFIRMED) -> None:
        self.target = target
        self.cases = cases()
        self._confirmed = confirmed
        self._chance = random.Random(seed)

    def declare(self) -> None:
        """Declare everything that the cases need, with their obstacles."""
        refuse = {"pattern": f"^{REFUSING}\\.", "definition": {"max-length": 0}, "apply-to": "queues"}
        self.manage("PUT", f"policies/%2F/{REFUSING}", refuse)
        with self.target.connect() as connection:
            channel = connection.channel()
            for case in self.cases:
                channel.queue_declare(case.source, durable=True, arguments=case.arguments)
                if case.ending:
                    channel.exchange_declare(f"dead.{case.number}", "direct", durable=True)
                    channel.queue_declare(case.target, durable=True, arguments={"x-overflow": "reject-publish"})
                    if case.obstacle != "unrouted":
                        self.bind(channel, case)

    def bind(self, channel: Any, case: Case) -> None:
        """Give the dead letters of a case their route."""
        channel.queue_bind(case.target, f"dead.{case.number}", "dead")

    def manage(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        """Ask the management API."""
        login = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        url = f"http://127.0.0.1:{self.target.http_port()}/api/{path}"
        urllib.request.urlopen(urllib.request.Request(url, data, login, method=method)).close()

    def round(self) -> None:
        """Let all clients work, kill what they work with, and start it again."""
        with self.working():
            self.wait_for_confirms(self._chance.randint(*self._confirmed))
            self.target.kill(lambda: self.wait_for_confirms(AFTER))
        self.target.restore()

    @contextmanager
    def working(self, publishing: bool = True) -> Iterator[None]:
        """Clients of all cases, for as long as a block lasts."""
        ended = threading.Event()
        talkers: list[Talker] = [Rejecter(case, self.target.connect, ended) for case in self.rejected]
        if publishing:
            talkers += [Publisher(case, self.target.connect, ended) for case in self.cases]
        for talker in talkers:
            talker.start()
        try:
            yield
        finally:
            ended.set()
            for talker in talkers:
                talker.join(PATIENCE_S)
        errors = [f"{each.name}: {each.error!r}" for each in talkers if each.error or each.is_alive()]
        assert not errors, errors

    @property
    def rejected(self) -> list[Case]:
        """Cases in which consumers make the dead letters."""
        return [case for case in self.cases if case.ending in ("rejected", "delivery_limit")]

    def wait_for_confirms(self, count: int) -> None:
        """Wait until each case has confirmed so many more messages."""
        wanted = {case.number: len(case.confirmed) + count for case in self.cases}
        self.wait(lambda: [case.title for case in self.cases if len(case.confirmed) < wanted[case.number]])

    def wait(self, missing: Callable[[], object]) -> None:
        """Wait until nothing is missing."""
        deadline = time.monotonic() + PATIENCE_S
        while found := missing():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {found}"
            time.sleep(POLL_S)

    def finish(self) -> None:
        """Make dead letters of the rest, remove the obstacles, and read everything."""
        with self.target.connect() as connection:
            channel = connection.channel()
            dying = [case.source for case in self.cases if case.ending]
            # Until the last one has come: what a consumer holds when it ends goes back to its queue.
            with self.working(publishing=False):
                self.wait(lambda: [name for name in dying if self.depth(channel, name)])
                refused = [case.target for case in self.cases if case.obstacle and self.depth(channel, case.target)]
                assert not refused, f"{refused} have messages in spite of their obstacle"
                self.manage("DELETE", f"policies/%2F/{REFUSING}")
                for case in self.cases:
                    if case.obstacle == "unrouted":
                        self.bind(channel, case)
                deadline = time.monotonic() + PATIENCE_S
                while any(case.lost for case in self.cases) and time.monotonic() < deadline:
                    self.drain(channel)
            time.sleep(QUIET_S)
            self.drain(channel)

    def depth(self, channel: Any, queue: str) -> int:
        """How many messages are ready in a queue."""
        return int(channel.queue_declare(queue, passive=True).method.message_count)

    def drain(self, channel: Any) -> None:
        """Read everything that is there."""
        for case in self.cases:
            while (found := channel.basic_get(case.target, auto_ack=True))[0] is not None:
                _, properties, body = found
                case.received[body.decode()] += 1
                reason = properties.headers["x-death"][0]["reason"] if case.ending else ""
                assert reason == case.ending, f"{case.title}: a dead letter for {reason}"


def table(rows: list[tuple[str, ...]]) -> list[str]:
    """Rows with columns of one width."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        )
        for row in rows
    ]


@contextmanager
def targets(single: bool, cluster: bool) -> Iterator[Iterator[Target]]:
    """Each target, started when it is asked for."""
    with tempfile.TemporaryDirectory(prefix="leveret-restarts-") as folder:

        def found() -> Iterator[Target]:
            if single:
                server = SingleServer(Path(folder))
                yield server
                server.server.stop()
            if cluster:
                with running() as nodes:
                    yield ClusterOfNodes(nodes)

        yield found()


def main() -> int:
    """Kill, count and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.durability.restarts", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--single", action="store_true", help="not the cluster")
    parser.add_argument("--cluster", action="store_true", help="not the single server")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("page", nargs="?")
    wanted = parser.parse_args()
    lines = [f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"]
    lost = 0
    with targets(not wanted.cluster, not wanted.single) as found:
        for target in found:
            trial = Trial(target, wanted.seed)
            trial.declare()
            for number in range(wanted.rounds):
                trial.round()
                print(f"{target.title}: round {number + 1} of {wanted.rounds}", file=sys.stderr, flush=True)
            trial.finish()
            lost += sum(len(case.lost) for case in trial.cases)
            lines += ["", f"{target.title}, {wanted.rounds} times"]
            lines += table([HEADINGS, *(case.cells() for case in trial.cases)])
    print("\n".join(lines))
    if wanted.page:
        transcribe("restarts", "\n".join(lines), Path(wanted.page))
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
