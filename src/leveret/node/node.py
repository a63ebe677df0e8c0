"""A node: which shards it serves, how it reaches those of others, and what it knows of the whole cluster."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from leveret.amqp.connection import Peer
from leveret.amqp.hub import Hub
from leveret.core.changes import Change
from leveret.core.errors import InvalidArgument, Unreachable
from leveret.node.changelog import ChangeLog
from leveret.node.definitions import Definitions
from leveret.node.front.backend import Backend
from leveret.node.front.connection import Caller, FrontConnection
from leveret.node.guest import Guest
from leveret.node.link import Conversation, Link
from leveret.node.replica import Replica
from leveret.node.sessions import RemoteListener, RemoteSession, caller_of
from leveret.node.shard import Shard
from leveret.telemetry.logs import Log

LOCAL = "@"  # and the name of a node: the shard of the queues that live and die with its connections
RETRY_S = 0.1
TOLD_S = 5.0

T = TypeVar("T")
LOG = Log("node")


class Owners(Protocol):
    """Who has which shard."""

    def owner_of(self, home: str) -> str | None:
        """The node that serves a shard; None: nobody does now."""

    def address_of(self, node: str) -> tuple[str, int] | None:
        """Where a node can be reached by others; None: it is not there."""

    def nodes(self) -> list[str]:
        """Who is there."""


class Node:
    """One node of a cluster."""

    def __init__(
        self, name: str, cluster: str, secret: bytes, log: ChangeLog, replica: Replica, hub: Hub, owners: Owners
    ) -> None:
        """Serve nothing yet; `hub` is that of the fronts, over the broker of the replica."""
        self.name = name
        self.cluster = cluster
        self.secret = secret
        self.replica = replica
        self.hub = hub
        self.shards: dict[str, Shard] = {}
        self.links: dict[str, Link] = {}
        self.definitions = Definitions(log, replica, self._applied, self._tell)
        self._owners = owners
        self._callers: dict[Backend, Caller] = {}
        self._served_by: dict[Backend, str] = {}
        self._dialing: dict[str, asyncio.Task[None]] = {}
        self._identities = 0
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._loop = asyncio.get_running_loop()

    # Coming and going

    async def start(self, host: str, port: int, context: ssl.SSLContext | None = None) -> int:
        """Listen for other nodes, and learn what there is; gives the port."""
        self._server = await self._loop.create_server(lambda: Link(self, dials=False), host, port, ssl=context)
        await self.definitions.start()
        self._tasks = [asyncio.create_task(self._look_around())]
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Leave."""
        tasks = [*self._tasks, *self._dialing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.definitions.stop()
        if self._server is not None:
            self._server.close()
        for link in list(self.links.values()):
            link.close()

    def connect(self, peer: Peer) -> FrontConnection:
        """The server's end of a client's connection."""
        return FrontConnection(self.hub, peer, self)

    # Shards

    def serve(self, shard: Shard) -> None:
        """Serve a shard from now on."""
        shard.reconcile(self.replica)
        self.shards[shard.home] = shard
        self.look()

    def forsake(self, home: str) -> None:
        """Serve a shard no more: its clients look for its next owner."""
        shard = self.shards.pop(home, None)
        for guest in [] if shard is None else list(shard.guests):
            guest.leave("the shard has another owner")
        for backend in [each for each, owner in self._served_by.items() if (each.home, owner) == (home, self.name)]:
            del self._served_by[backend]
            backend.lost("the shard has another owner")

    def look(self) -> None:
        """Something has changed: find ways to shards that have none."""
        for backend in [each for each in self._callers if not each.attached]:
            self._find(backend)

    async def _look_around(self) -> None:
        """Reach every node that is there, and every shard that clients wait for."""
        while True:
            for name in self._owners.nodes():
                if self.name < name and name not in self.links and name not in self._dialing:
                    self._dialing[name] = asyncio.create_task(self._dial(name))
            self.look()
            await asyncio.sleep(RETRY_S)

    async def _dial(self, name: str) -> None:
        """Call a node, of which the one with the lower name calls."""
        address = self._owners.address_of(name)
        try:
            if address is not None:
                await self._loop.create_connection(lambda: Link(self, dials=True), *address)
        except OSError as error:
            LOG.info("node not reached", node=name, reason=error)
        finally:
            del self._dialing[name]

    # For fronts

    def home_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""
        return self.replica.home_of(vhost, queue)

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        """Change a definition on every node."""
        self.definitions.change(change, done)

    def attach(self, backend: Backend, caller: Caller) -> None:
        """Find a way to the owner of a shard, now and whenever it changes."""
        self._callers[backend] = caller
        self._find(backend)

    def detach(self, backend: Backend) -> None:
        """Nobody needs that way any more."""
        self._callers.pop(backend, None)
        self._served_by.pop(backend, None)

    def soon(self, job: Callable[[], None]) -> None:
        """Do something in the next turn of the loop."""
        self._loop.call_soon(job)

    def identify(self) -> str:
        """Another name for a connection."""
        self._identities += 1
        return f"{self.name}/{self._identities}"

    def _find(self, backend: Backend) -> None:
        """Attach a backend if its shard is served by somebody who can be reached."""
        caller, home = self._callers[backend], backend.home
        owner = home[len(LOCAL) :] if home.startswith(LOCAL) else self._owners.owner_of(home)
        if owner == self.name and home in self.shards:
            self._served_by[backend] = owner
            backend.connection.attached(backend, Guest(self.shards[home].hub, caller, backend))
        elif owner in self.links:
            self._served_by[backend] = owner
            backend.connection.attached(backend, RemoteSession(self.links[owner], backend, caller))

    # For links

    def up(self, link: Link) -> None:
        """Another node is reached; of two links to it the later one is used."""
        previous = self.links.get(link.peer)
        self.links[link.peer] = link
        if previous is not None:
            previous.close()
        self.look()

    def down(self, link: Link) -> None:
        """Another node is not reached any more."""
        if self.links.get(link.peer) is link:
            del self.links[link.peer]

    def opened(self, link: Link, number: int, request: dict[str, Any]) -> Conversation:
        """A client of another node wants something of a shard of ours."""
        home = request.get("shard")
        shard = self.shards.get(home) if isinstance(home, str) else None
        if shard is None:
            raise Unreachable(f"shard {home} is not on node '{self.name}'")
        return RemoteListener(link, number, shard, caller_of(request, self.hub.access.users))

    def asked(self, link: Link, request: bytes, answer: Callable[[bytes], None]) -> None:
        """Another node wants us to know a version of the definitions."""
        asked = json.loads(request)
        if "version" not in asked:
            raise InvalidArgument(f"node '{link.peer}' asks for what nobody knows: is it of another version?")
        task = asyncio.create_task(self.definitions.catch_up(int(asked["version"])))
        task.add_done_callback(lambda done: answer(b"" if done.exception() is None else str(done.exception()).encode()))

    async def _tell(self, version: int) -> None:
        """Return when every node that can be reached knows a version."""
        request = json.dumps({"version": version}).encode()
        waiting = [self._ask(link, request) for link in self.links.values()]
        if waiting:
            await asyncio.wait(waiting, timeout=TOLD_S)

    def _ask(self, link: Link, request: bytes) -> asyncio.Future[bytes | None]:
        """What another node answers; None when it is lost meanwhile."""
        answer: asyncio.Future[bytes | None] = self._loop.create_future()

        def answered(data: bytes | None) -> None:
            if not answer.done():
                answer.set_result(data)

        link.ask(request, answered)
        return answer

    def _applied(self, change: Change[Any], home: str | None) -> None:
        """A change was applied to the replica: the shards of this node follow."""
        for shard in self.shards.values():
            shard.apply(change, home)
