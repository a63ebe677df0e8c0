"""Kills a server under load again and again, and counts what it lost: `python -m tests.durability.server_kill 60`."""

import random
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from tests.durability.amqp_load import QUEUES, TARGETS, Consumer, Id, Publisher, Talker, drain, priority_of
from tests.protocols.amqp.wire import Client, SocketLink
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

PUBLISHERS = 4
CONFIRMED_MAX = 3_000  # before the next kill
PRIORITISED = ("priority", "quorum")  # queues that deliver by priority
POLL_S = 0.005
# So that segments end, are compacted and go while the server is killed.
SMALL = ("--segment-bytes", "65536", "--checkpoint-bytes", "262144", "--cache-bytes", "65536")


class Figures(NamedTuple):
    """What one life of a server left behind."""

    confirmed: int
    acknowledged: int
    drained: int
    duplicates: int
    oldest_ms: int  # how long before the kill the oldest acknowledgement was sent whose message came back


class Battle:
    """A server, and clients that lose it."""

    def __init__(self, folder: Path, seed: int, *flags: str) -> None:
        self.server = ServerProcess(folder, *flags)
        self._chance = random.Random(seed)
        self.lives: list[Figures] = []

    def connect(self) -> Client:
        """A client with one open channel; the server may be killed before it is open."""
        client = Client(SocketLink("127.0.0.1", self.server.port))
        try:
            return client.open()
        except BaseException:
            client.link.close()
            raise

    def live(self) -> Figures:
        """Start the server, load it, kill it, start it again and see what it kept."""
        self.server.start(*self._chance.choice(((), SMALL)))
        with self.connect() as client:
            for declare in QUEUES.values():
                client.call(1, declare)
            client.leave()
        publishers = [
            Publisher(self.connect, f"{len(self.lives)}{'abcd'[n]}", self._chance.randrange(1 << 30))
            for n in range(PUBLISHERS)
        ]
        consumers = [Consumer(self.connect, name, self._chance.randrange(1 << 30)) for name in TARGETS]
        killed = self.load([*publishers, *consumers], publishers)
        figures = self.check(publishers, consumers, killed)
        self.lives.append(figures)
        return figures

    def load(self, talkers: list[Talker], publishers: list[Publisher]) -> float:
        """Let them talk until enough was confirmed, then end the server in the middle of a word; give when that was."""
        enough = self._chance.randrange(CONFIRMED_MAX)
        for talker in talkers:
            talker.start()
        until = time.monotonic() + PATIENCE_S
        while sum(len(publisher.confirmed) for publisher in publishers) <= enough:
            assert time.monotonic() < until, "the server confirms nothing"
            assert not any(talker.error for talker in talkers), [talker.error for talker in talkers]
            time.sleep(POLL_S)
        killed = time.monotonic()
        self.server.kill()
        for talker in talkers:
            talker.join(PATIENCE_S)
            assert not talker.is_alive(), f"{talker.name} does not end"
            assert talker.error is None, f"{talker.name}: {talker.error!r}"
        return killed

    def check(self, publishers: list[Publisher], consumers: list[Consumer], killed: float) -> Figures:
        """Compare what the next life of the server has with what was promised."""
        confirmed = set[Id]().union(*(publisher.confirmed for publisher in publishers))
        asked = {message: at for consumer in consumers for message, at in consumer.asked.items()}
        safe = set[Id]().union(*(consumer.safe for consumer in consumers))
        self.server.start()
        with self.connect() as client:
            found = {name: drain(client, name) for name in QUEUES}
            client.leave()
        assert self.server.stop() == 0
        everything = [each for messages in found.values() for each in messages]
        assert len(everything) == len(set(everything)), "a message is there twice"
        lost = confirmed - asked.keys() - set(everything)
        assert not lost, f"{len(lost)} confirmed messages are lost, for example {sorted(lost)[:5]}"
        back = safe & set(everything)
        assert not back, f"{len(back)} acknowledged messages came back, for example {sorted(back)[:5]}"
        for messages in [*found.values(), *(consumer.taken for consumer in consumers)]:
            check_order(messages)
        ages = [killed - asked[message] for message in everything if message in asked]
        return Figures(len(confirmed), len(asked), len(everything), len(ages), int(1000 * max(ages, default=0)))


def check_order(messages: list[Id]) -> None:
    """What one publisher sent to one queue comes in its order, within a priority where there are some."""
    lines: dict[tuple[str, int], list[int]] = defaultdict(list)
    for queue, publisher, number in messages:
        lines[publisher, priority_of(number) if queue in PRIORITISED else 0].append(number)
    for line, numbers in lines.items():
        assert numbers == sorted(numbers), f"out of order: {line}"


def summary(lives: list[Figures]) -> str:
    """One line about all lives."""
    confirmed, acknowledged, drained, duplicates, _ = (sum(column) for column in zip(*lives, strict=True))
    return (
        f"{len(lives)} kills: {confirmed} confirmed, lost 0, {acknowledged} acknowledged, {drained} drained, "
        f"{duplicates} duplicates, acknowledged at most {max(life.oldest_ms for life in lives)} ms before a kill"
    )


def main(seconds: float) -> None:
    """Kill for so long."""
    seed = random.randrange(1 << 30)
    until = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        battle = Battle(Path(folder), seed)
        while time.monotonic() < until:
            battle.live()
            print(f"seed {seed}, {summary(battle.lives)}", flush=True)


if __name__ == "__main__":
    main(float(sys.argv[1]))
