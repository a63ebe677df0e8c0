"""A node with several shards in memory, behind the front that clients of a cluster talk to."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from leveret.cluster.catalog.directory import Directory
from leveret.cluster.catalog.replica import Replica
from leveret.cluster.coordination.placement import LOCAL, Placements
from leveret.cluster.proxy.connection import Caller, FrontConnection
from leveret.cluster.proxy.proxied import Guest
from leveret.cluster.proxy.shard_connection import Backend
from leveret.cluster.shards.shard import Shard
from leveret.cluster.transfer.batch import Bundle
from leveret.cluster.transfer.outbox import Outbox
from leveret.core.changes import Change, DeleteQueue
from leveret.core.errors import LeveretError
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.embedded.broker import Broker
from leveret.protocols.amqp.connection import Peer
from leveret.protocols.amqp.limits import Limits
from leveret.runtime.options import options_of
from leveret.runtime.runtime import Guard
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

    def __init__(self, limits: Limits | None = None, path: str | None = None, **options: Any) -> None:
        self.replica = Replica(SHARDS)
        self._soon: deque[Callable[[], None]] = deque()
        super().__init__(limits)
        self.worlds = {home: self.shard_world(home, limits, **options) for home in HOMES}
        self.shards = {home: Shard(home, world.hub) for home, world in self.worlds.items()}
        for home, world in self.worlds.items():
            world.hub.access = self.access
            self.access.watchers.add(world.hub)
            world.core.gone = partial(self._hear_gone, home)
        self.directory = Directory(SHARDS)
        self.outboxes = {home: Outbox(home, world.core, self) for home, world in self.worlds.items()}
        for home, outbox in self.outboxes.items():
            outbox.start(self.worlds[home].hub)
        self.posted: list[tuple[str, Bundle]] = []
        self.roads = Roads()
        self.guests: dict[Backend, Guest] = {}
        self.callers: dict[Backend, Caller] = {}
        self._identities = 0
        self.version = 0
        self.is_current = True
        self.doubted: list[FrontConnection] = []
        self.deaf = False
        """Whether nobody hears what shards say."""

    def open(self, path: str | None, **options: Any) -> Broker:
        """The copy of all definitions."""
        return Broker(Guard(self.replica.broker, self.replica.lock, self.clock), options_of({}), b"nobody knows")

    def shard_world(self, home: str, limits: Limits | None, **options: Any) -> World:
        """The broker of a shard."""
        return World(limits, **options)

    def connect(self, peer: Peer) -> FrontConnection:
        return FrontConnection(self.hub, peer, self)

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

    def home_of(self, vhost: str, queue: str) -> str:
        return self.replica.home_of(vhost, queue)

    def hold(self, connection: FrontConnection) -> None:
        self.doubted.append(connection)

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

    def _hear_gone(self, home: str, queue: Queue) -> None:
        """A shard has deleted a queue."""
        self._soon.append(lambda: self._forget(home, queue))

    def _forget(self, home: str, queue: Queue) -> None:
        if self.replica.homes.get((queue.vhost, queue.name)) == home:
            self.change(DeleteQueue(queue.vhost, queue.name), lambda _: None)

    def attach(self, backend: Backend, caller: Caller) -> None:
        self.callers[backend] = caller
        self._connect(backend)

    def renew(self, backend: Backend, caller: Caller) -> None:
        if backend in self.callers:
            self.callers[backend] = caller

    def reattach(self) -> None:
        """Every shard that has lost its owner has another one."""
        for backend in list(self.callers):
            if not backend.attached:
                self._connect(backend)
        self.work()

    def _connect(self, backend: Backend) -> None:
        guest = self.guests[backend] = Guest(self.shards[backend.home], self.callers[backend], backend)
        backend.connection.attached(backend, guest)

    def detach(self, backend: Backend) -> None:
        self.guests.pop(backend, None)
        self.callers.pop(backend, None)

    # What outboxes ask for

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        return self.directory.reached(vhost, exchange, keys, properties)

    def definitions(self) -> Any:
        return self.directory.definitions()

    def wake(self, job: Callable[[], None]) -> None:
        self._soon.append(job)

    def post(self, home: str, bundle: Bundle, done: Callable[[int], None]) -> None:
        self.posted.append((home, bundle))
        if not self.roads.there or home in self.roads.closed:
            self._soon.append(partial(done, 0))
            return

        def answer(taken: int) -> None:
            if self.roads.back:
                self._soon.append(partial(done, taken))

        self.shards[home].bring(bundle, answer)

    def close(self) -> None:
        super().close()
        self.work()
        for world in self.worlds.values():
            world.close()
