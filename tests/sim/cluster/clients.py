"""Clients of a cluster: publishers, consumers that settle or move messages, and takers of what was moved."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from leveret.cluster.proxy.claims import Delivered
from leveret.cluster.transfer.message import OutboxBatch
from leveret.core.held import Held
from tests.sim.cluster.database import Database
from tests.sim.cluster.history import History
from tests.sim.cluster.loop import Call, Loop, Process
from tests.sim.cluster.mail import FULL, Brought, name_of
from tests.sim.cluster.node import Node
from tests.sim.cluster.shard import WORK, Request, ShardHost
from tests.sim.cluster.table import LOST, Once

PATIENCE_MS = 5_000
REJECTED = 0.3
MOVED = 0.2
LOST_SHARE = 0.01
ATTEMPTS = 8


class Unanswered(Exception):
    """No owner, or no answer: it may have been done, or not."""


class Cluster:
    """Where clients connect to: the nodes that there are, and the history of what they are told."""

    def __init__(self, loop: Loop, nodes: dict[str, Node], shards: int, database: Database, history: History) -> None:
        self.loop = loop
        self.nodes = nodes
        self.shards = shards
        self.database = database
        self.history = history
        self.lost_share = LOST_SHARE
        self.hungry = loop.random.random() < 0.5
        """Whether messages are taken that were moved; if not, their queues are full."""

    def owner(self, shard: int) -> tuple[Node, ShardHost]:
        """Whoever some node takes for the owner of a shard, and who does so himself."""
        asked = self.loop.random.choice(list(self.nodes.values()))
        known = asked.view.owners.get(shard)
        node = self.nodes.get(known.node) if known is not None else None
        host = None if node is None else node.serving(shard)
        if node is None or host is None:
            raise Unanswered
        return node, host

    def ask(self, process: Process, host: ShardHost, verb: str, *given: Any) -> Any:
        """The answer of an owner."""

        def begin(wake: Callable[[Any], None]) -> None:
            heard = Once(wake)
            request = Request(verb, given, lambda value: self._answer(host, value, heard))
            self.loop.after(PATIENCE_MS, lambda: heard(LOST))
            host.process.after(self.loop.delay_ms(), lambda: host.ask(request))

        found = process.wait(begin)
        if found is LOST:
            raise Unanswered
        return found

    def bring(self, shard: int, batch: OutboxBatch, done: Callable[[int], None]) -> Call | None:
        """What brings letters to the owner of a shard; None: nobody knows one."""
        try:
            host = self.owner(shard)[1]
        except Unanswered:
            return None

        def brought(found: list[Brought] | None) -> None:
            for each in found or ():
                self.history.brought(*each, host.committed)
            self._answer(host, len(found or ()), Once(done))

        return lambda: host.process.after(self.loop.delay_ms(), lambda: host.ask(Request("bring", (batch,), brought)))

    def _answer(self, host: ShardHost, value: Any, heard: Once) -> None:
        """An owner answers: what it answers for must be safe. The answer may be lost."""
        if not self.database.durable(host.number, host.committed):
            self.history.find("unsafe", f"frame {host.committed} of shard {host.number} is answered for, not durable")
        if self.loop.random.random() >= self.lost_share:
            self.loop.after(self.loop.delay_ms(), lambda: heard(value))


def publisher(cluster: Cluster, process: Process, name: str, count: int) -> None:
    """Publish messages, each once."""
    for number in range(count):
        process.sleep(cluster.loop.random.randrange(400))
        message = f"{name}-{number}"
        try:
            host = cluster.owner(cluster.loop.random.randrange(cluster.shards))[1]
            if cluster.ask(process, host, "publish", WORK, message):
                cluster.history.confirmed(cluster.history.published, message)
        except Unanswered:
            cluster.history.counts["unanswered"] += 1


def consumer(cluster: Cluster, process: Process, shard: int) -> None:
    """Take messages and settle them, for ever."""
    while True:
        found = take(cluster, process, shard, WORK)
        if found is not None:
            host, held, lease, known, message = found
            if cluster.loop.random.random() < MOVED:
                move(cluster, process, host, held, lease, message)
                continue
            verb = "reject" if cluster.loop.random.random() < REJECTED else "ack"
            told = cluster.history.rejected if verb == "reject" else cluster.history.acknowledged
            try:
                settled = cluster.ask(process, host, "settle", WORK, held, lease, verb)
            except Unanswered:
                cluster.history.counts["unanswered"] += 1
                settled = settle_again(cluster, process, shard, known, verb)
            if settled:
                cluster.history.confirmed(told, message)
        else:
            process.sleep(cluster.loop.random.randrange(100, 600))


def move(cluster: Cluster, process: Process, host: ShardHost, held: Held, lease: int, message: str) -> None:
    """Move a message to a queue that may be full."""
    try:
        if cluster.ask(process, host, "move", held, lease):
            cluster.history.confirmed(cluster.history.moved, message)
    except Unanswered:
        cluster.history.counts["unanswered"] += 1


def settle_again(cluster: Cluster, process: Process, shard: int, known: Delivered, verb: str) -> bool:
    """Settle a message with whoever owns the shard by now; False when nobody has answered."""
    for _ in range(ATTEMPTS):
        process.sleep(cluster.loop.random.randrange(100, 600))
        with suppress(Unanswered):
            cluster.history.counts["settled again"] += 1
            return bool(cluster.ask(process, cluster.owner(shard)[1], "settle_again", WORK, known, verb))
    return False


def taker(cluster: Cluster, process: Process, shard: int) -> None:
    """Empty the queue of a shard that is soon full, while anybody wants that."""
    name = name_of(FULL, shard)
    while True:
        found = take(cluster, process, shard, name) if cluster.hungry else None
        if found is None:
            process.sleep(cluster.loop.random.randrange(100, 600))
            continue
        host, held, lease, _, message = found
        cluster.history.moved_messages.add(message)
        with suppress(Unanswered):
            cluster.ask(process, host, "settle", name, held, lease, "ack")


def take(cluster: Cluster, process: Process, shard: int, queue: str) -> Any:
    """A message with its lease and its owner, if there is one."""
    try:
        node, host = cluster.owner(shard)
        if not node.proven(shard):
            return None
        found = cluster.ask(process, host, "take", queue)
    except Unanswered:
        return None
    if found is None:
        return None
    held, lease, known, message = found
    if queue == WORK:
        current = cluster.database.states[shard].shard.epoch == host.epoch
        cluster.history.took(message, current)
    return host, held, lease, known, message
