"""A node with several shards in memory, behind the front that clients of a cluster talk to."""

import zlib
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from leveret.amqp.connection import Peer
from leveret.amqp.limits import Limits
from leveret.core.changes import Change, DeclareQueue
from leveret.core.errors import LeveretError
from leveret.node.front.backend import Backend
from leveret.node.front.connection import Caller, FrontConnection
from leveret.node.guest import Guest
from leveret.node.replica import Replica
from leveret.node.shard import Shard
from tests.amqp.client import World

SHARDS = 3
LOCAL = "local"
T = TypeVar("T")


def place(change: DeclareQueue) -> str:
    """Queues of one connection stay here, the others are spread by their names."""
    return LOCAL if change.owner is not None else str(zlib.crc32(change.name.encode()) % SHARDS)


class FrontWorld(World):
    """A hub of fronts, and a world for each shard."""

    def __init__(self, limits: Limits | None = None, path: str | None = None, **options: Any) -> None:
        super().__init__(limits)
        self.replica = Replica(self.core, place)
        self.worlds = {home: World(limits, **options) for home in (*map(str, range(SHARDS)), LOCAL)}
        self.shards = {home: Shard(home, world.hub) for home, world in self.worlds.items()}
        for world in self.worlds.values():
            world.hub.access = self.access
        self.guests: dict[Backend, Guest] = {}
        self.callers: dict[Backend, Caller] = {}
        self._identities = 0
        self.deaf = False
        """Whether nobody hears what shards say."""
        self._soon: deque[Callable[[], None]] = deque()

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

    def identify(self) -> str:
        self._identities += 1
        return f"here/{self._identities}"

    def soon(self, job: Callable[[], None]) -> None:
        self._soon.append(job)

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        with self.hub.locked():
            home = self.replica.home(change)
            try:
                result: T | Exception = self.replica.apply(change)
            except LeveretError as error:
                result = error
        if not isinstance(result, Exception):
            for shard in self.shards.values():
                shard.apply(change, home)
        done(result)

    def attach(self, backend: Backend, caller: Caller) -> None:
        self.callers[backend] = caller
        self._connect(backend)

    def reattach(self) -> None:
        """Every shard that has lost its owner has another one."""
        for backend in list(self.callers):
            if not backend.attached:
                self._connect(backend)
        self.work()

    def _connect(self, backend: Backend) -> None:
        guest = self.guests[backend] = Guest(self.shards[backend.home].hub, self.callers[backend], backend)
        backend.connection.attached(backend, guest)

    def detach(self, backend: Backend) -> None:
        self.guests.pop(backend, None)
        self.callers.pop(backend, None)

    def close(self) -> None:
        super().close()
        self.work()
        for world in self.worlds.values():
            world.close()
