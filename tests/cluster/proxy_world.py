"""A node with several shards in memory, behind the front that clients of a cluster talk to."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from leveret.cluster.catalog.replica import QueueDirectory, Replica
from leveret.cluster.coordination.placement import LOCAL, Placements
from leveret.cluster.proxy.connection import ProxyCaller, ProxyConnection
from leveret.cluster.proxy.proxied import ProxiedClient
from leveret.cluster.proxy.shard_connection import ShardConnection
from leveret.cluster.shards.shard import Shard
from leveret.cluster.transfer.message import OutboxBatch
from leveret.cluster.transfer.outbox import Outbox
from leveret.core.changes import Change, DeleteQueue
from leveret.core.errors import LeveretError
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.embedded.broker import Broker
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.runtime.runtime import Runtime
from tests.protocols.amqp.client import World

SHARDS = 3
NODE = "here"
HOMES = [*map(str, range(SHARDS)), LOCAL + NODE]
T = TypeVar("T")


def place(name: str) -> str:
    """The shard that a queue of this name gets."""
    return str(Placements(SHARDS).choose("/", name, None))


class Roads:
    """Whether letters come to another shard, and answers back."""

    def __init__(self) -> None:
        self.there = True
        self.back = True
        self.closed: set[str] = set()
        """Shards that nobody reaches."""


class FrontWorld(World):
    """A hub of fronts, and a world for each shard."""

    def __init__(self, limits: AmqpLimits | None = None, path: str | None = None, **options: Any) -> None:
        self.replica = Replica(SHARDS)
        self._soon: deque[Callable[[], None]] = deque()
        super().__init__(limits)
        self.worlds = {shard_id: self.shard_world(shard_id, limits, **options) for shard_id in HOMES}
        self.shards = {shard_id: Shard(shard_id, world.hub) for shard_id, world in self.worlds.items()}
        for shard_id, world in self.worlds.items():
            world.hub.access = self.access
            self.access.watchers.add(world.hub)
            world.core.gone = partial(self._hear_gone, shard_id)
        self.directory = QueueDirectory(SHARDS)
        self.outboxes = {shard_id: Outbox(shard_id, world.core, self) for shard_id, world in self.worlds.items()}
        for shard_id, outbox in self.outboxes.items():
            outbox.start(self.worlds[shard_id].hub)
        self.posted: list[tuple[str, OutboxBatch]] = []
        self.roads = Roads()
        self.proxied_clients: dict[ShardConnection, ProxiedClient] = {}
        self.callers: dict[ShardConnection, ProxyCaller] = {}
        self._identities = 0
        self.version = 0
        self.is_current = True
        self.is_stale: list[ProxyConnection] = []
        self.deaf = False
        """Whether nobody hears what shards say."""

    def open(self, path: str | None, **options: Any) -> Broker:
        """The copy of all definitions."""
        return Broker(Runtime(self.replica.broker, self.replica.lock, self.clock))

    def shard_world(self, shard_id: str, limits: AmqpLimits | None, **options: Any) -> World:
        """The broker of a shard."""
        return World(limits, **options)

    def connect(self, peer: AmqpPeer) -> ProxyConnection:
        return ProxyConnection(self.hub, peer, self)

    def work(self) -> None:
        """Everything that the loop would do until there is nothing left."""
        busy = True
        while busy:
            super().work()
            busy = bool(self._soon)
            if self._soon:
                self._soon.popleft()()
            for world in self.worlds.values():
                world.work()
                if self.deaf:
                    continue
                busy = busy or bool(world.hub.outbox.waiting)
                world.hub.flush()

    def pass_ms(self, ms: int) -> None:
        for world in self.worlds.values():
            world.pass_ms(ms)
        super().pass_ms(ms)
        self.work()

    # What a node does

    def shard_id_of(self, vhost: str, queue: str) -> str:
        return self.replica.shard_id_of(vhost, queue)

    def hold(self, connection: ProxyConnection) -> None:
        self.is_stale.append(connection)

    def identify(self) -> str:
        self._identities += 1
        return f"{NODE}/{self._identities}"

    def soon(self, job: Callable[[], None]) -> None:
        self._soon.append(job)

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        self.decide(change.apply, done)

    def decide(self, verb: Callable[[Any], Any], done: Callable[[Any], None] = lambda _: None) -> None:
        """Run a verb on the definitions of all shards."""
        result: Any
        try:
            result, steps = self.replica.run(verb)
        except LeveretError as error:
            result, steps = error, []
        self.directory.follow([step.change for step in steps])
        for shard in self.shards.values():
            shard.follow([step.change for step in steps], self.replica)
        done(result)

    def insist(self, change: Change[Any]) -> None:
        self.change(change, lambda _: None)

    def _hear_gone(self, shard_id: str, queue: Queue) -> None:
        """A shard has deleted a queue."""
        self._soon.append(lambda: self._forget(shard_id, queue))

    def _forget(self, shard_id: str, queue: Queue) -> None:
        if self.replica.shard_ids.get((queue.vhost, queue.name)) == shard_id:
            self.change(DeleteQueue(queue.vhost, queue.name), lambda _: None)

    def attach(self, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        self.callers[shard_connection] = caller
        self._connect(shard_connection)

    def renew(self, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        if shard_connection in self.callers:
            self.callers[shard_connection] = caller

    def reattach(self) -> None:
        """Every shard that has lost its owner has another one."""
        for shard_connection in list(self.callers):
            if not shard_connection.attached:
                self._connect(shard_connection)
        self.work()

    def _connect(self, shard_connection: ShardConnection) -> None:
        proxied = self.proxied_clients[shard_connection] = ProxiedClient(
            self.shards[shard_connection.shard_id], self.callers[shard_connection], shard_connection
        )
        shard_connection.connection.attached(shard_connection, proxied)

    def detach(self, shard_connection: ShardConnection) -> None:
        self.proxied_clients.pop(shard_connection, None)
        self.callers.pop(shard_connection, None)

    # What outboxes ask for

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        return self.directory.reached(vhost, exchange, keys, properties)

    def definitions(self) -> Any:
        return self.directory.definitions()

    def wake(self, job: Callable[[], None]) -> None:
        self._soon.append(job)

    def post(self, shard_id: str, bundle: OutboxBatch, done: Callable[[int], None]) -> None:
        self.posted.append((shard_id, bundle))
        if not self.roads.there or shard_id in self.roads.closed:
            self._soon.append(partial(done, 0))
            return

        def answer(taken: int) -> None:
            if self.roads.back:
                self._soon.append(partial(done, taken))

        self.shards[shard_id].bring(bundle, answer)

    def close(self) -> None:
        super().close()
        self.work()
        for world in self.worlds.values():
            world.close()
