"""One seed: three nodes, four shards, clients, faults; then peace, and what is left is looked at."""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.sim.cluster.clients import Cluster, Unanswered, consumer, publisher, taker
from tests.sim.cluster.database import Database
from tests.sim.cluster.history import History
from tests.sim.cluster.loop import Loop, Process
from tests.sim.cluster.mail import DEAD, FULL, name_of
from tests.sim.cluster.node import Node
from tests.sim.cluster.registry import Registry
from tests.sim.cluster.shard import WORK, ShardHost

NODES = ("a", "b", "c")
SHARDS = 4
PUBLISHERS = 3
MESSAGES = 12
FAULTS = 6
CALM_MS = 1_000
WAR_MS = 15_000
PEACE_MS = 120_000
LOOK_MS = 100


class World:
    """Everything of one seed."""

    def __init__(self, seed: int, node_class: type[Node] = Node) -> None:
        self.loop = Loop(seed)
        self.history = History()
        self.registry = Registry(self.loop)
        self.database = Database(self.loop, SHARDS, self.history)
        self._node_class = node_class
        self._lives = 0
        self.nodes: dict[str, Node] = {}
        self.cluster = Cluster(self.loop, self.nodes, SHARDS, self.database, self.history)
        for name in NODES:
            self.start(name)
        self._clients = Process(self.loop)
        self._publishing = PUBLISHERS

    def start(self, name: str) -> None:
        """A node begins, again or for the first time."""
        self._lives += 1
        node = self._node_class(self.loop, name, self._lives, self.registry, self.database, SHARDS)
        node.cluster = self.cluster
        self.nodes[name] = node

    def run(self) -> History:
        """War, peace, judgement."""
        for number in range(PUBLISHERS):
            self._clients.spawn(lambda number=number: self._publish(number))  # type: ignore[misc]
        for shard in range(SHARDS):
            self._clients.spawn(lambda shard=shard: consumer(self.cluster, self._clients, shard))  # type: ignore[misc]
            self._clients.spawn(lambda shard=shard: taker(self.cluster, self._clients, shard))  # type: ignore[misc]
        self.loop.run(CALM_MS)
        for _ in range(FAULTS):
            fault = self.loop.random.choice(list(FAULT_KINDS))
            self.loop.after(self.loop.random.randrange(WAR_MS), lambda fault=fault: self.strike(fault))  # type: ignore[misc]
        self.loop.run(CALM_MS + WAR_MS)
        self._heal()
        self.cluster.hungry = False  # full queues keep nothing from its end but what is for them
        self._run_until(self._settled)
        if self._settled():
            self.cluster.hungry = True
            self._run_until(lambda: self._settled() and self._emptied())
        self._look()
        return self.history

    def _run_until(self, condition: Callable[[], bool]) -> None:
        """Let time pass until something is so, but not for ever."""
        until_ms = self.loop.now_ms + PEACE_MS
        while not condition() and self.loop.now_ms < until_ms:
            self.loop.run(self.loop.now_ms + LOOK_MS)

    def strike(self, fault: str) -> None:
        """Let something go wrong."""
        self.history.counts[fault] += 1
        FAULT_KINDS[fault](self, self.loop.random.choice(NODES))

    def _publish(self, number: int) -> None:
        publisher(self.cluster, self._clients, f"p{number}", MESSAGES)
        self._publishing -= 1

    def _heal(self) -> None:
        self.registry.up = True
        self.registry.lost_share = self.cluster.lost_share = 0
        self.database.heal()
        for name, node in self.nodes.items():
            if not node.alive:
                self.start(name)

    def _quiet(self, shard: int) -> bool:
        """Whether the owner serves a shard and has nothing for consumers, not even leased, and no dead letters."""
        host = self._host(shard)
        return host is not None and not host.busy and not host.held(WORK) and host.mail.is_empty(DEAD)

    def _host(self, shard: int) -> ShardHost | None:
        """A shard where its owner has it."""
        epoch = self.database.states[shard].shard.epoch
        hosts = [node.serving(shard) for node in self.nodes.values() if node.alive]
        return next((host for host in hosts if host is not None and host.epoch == epoch), None)

    def _settled(self) -> bool:
        return not self._publishing and all(map(self._quiet, range(SHARDS)))

    def _emptied(self) -> bool:
        """Whether the queues are empty that were full, and nothing is on its way there."""
        hosts = [self._host(shard) for shard in range(SHARDS)]
        return all(
            host is not None and host.mail.is_empty(FULL) and not host.held(name_of(FULL, host.number))
            for host in hosts
        )

    def _look(self) -> None:
        """What the queues for dead letters hold, and what is missing."""
        if not (self._settled() and self._emptied()):
            self.history.find("stuck", f"{PEACE_MS} ms after the last fault not every shard is served and empty")
            return
        counting = list(range(SHARDS))
        for shard in range(SHARDS):
            self._clients.spawn(lambda shard=shard: self._count_dead(shard, counting))  # type: ignore[misc]
        self._run_until(lambda: not counting)
        self.history.judge()

    def _count_dead(self, shard: int, counting: list[int]) -> None:
        found = None
        while found is None:
            host = self._host(shard)
            if host is not None:
                with suppress(Unanswered):
                    found = self.cluster.ask(self._clients, host, "bodies", name_of(DEAD, shard))
            self._clients.sleep(10)
        self.history.dead.update(found)
        counting.remove(shard)


def kill(world: World, name: str) -> None:
    """A node dies, and begins again later."""
    world.nodes[name].kill()
    world.loop.after(world.loop.random.randrange(100, 5_000), lambda: revive(world, name))


def revive(world: World, name: str) -> None:
    """A dead node begins again."""
    if not world.nodes[name].alive:
        world.start(name)


def leave(world: World, name: str) -> None:
    """A node is drained and begins again, as in a rolling restart."""
    world.nodes[name].leave()
    world.loop.after(world.loop.random.randrange(2_000, 12_000), lambda: revive(world, name))


def rebalance(world: World, name: str) -> None:
    """An operator lets shards go where they should be, and one of them be taken anew where it is."""
    node = world.nodes[name]
    node.ownership.rebalance(node.now_ms())
    node.ownership.retake(node.now_ms() % SHARDS)


def etcd_outage(world: World, name: str) -> None:
    """etcd does not answer for a while."""
    world.registry.up = False
    world.loop.after(world.loop.random.randrange(500, 10_000), lambda: setattr(world.registry, "up", True))


def cancel(world: World, name: str) -> None:
    """The standby hangs, and an operator cancels the waits; then it may be the primary before it has caught up."""
    world.database.stall(3_000)
    world.loop.after(world.loop.random.randrange(100, 2_900), world.database.cancel)
    if world.loop.random.random() < 0.5:
        world.loop.after(world.loop.random.randrange(2_900, 3_000), world.database.fail_over)


FAULT_KINDS: dict[str, Callable[[World, str], None]] = {
    "kill": kill,
    "stop": lambda world, name: world.nodes[name].stop(world.loop.random.randrange(500, 10_000)),
    "leave": leave,
    "rebalance": rebalance,
    "lose lease": lambda world, name: world.registry.revoke(world.nodes[name].ownership.lease),
    "etcd outage": etcd_outage,
    "stall": lambda world, name: world.database.stall(world.loop.random.randrange(500, 5_000)),
    "cancel": cancel,
    "failover": lambda world, name: world.database.fail_over(),
}


@dataclass
class Outcome:
    """What came of a number of seeds."""

    seeds: int = 0
    simulated_ms: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    history: History = field(default_factory=History)
    """Of the last one."""
    failed: int | None = None
    """The first seed with a finding."""


def explore(seed: int, seeds: int, node_class: type[Node] | None = None) -> Outcome:
    """Run seed after seed until one of them fails."""
    outcome = Outcome()
    for each in range(seed, seed + seeds):
        world = World(each, node_class or Node)
        outcome.history = world.run()
        outcome.seeds += 1
        outcome.simulated_ms += world.loop.now_ms
        outcome.counts += outcome.history.counts
        if outcome.history.findings:
            outcome.failed = each
            break
    return outcome
