"""A node: which shards it serves, how it reaches those of others, and what it knows of the whole cluster."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from leveret.amqp.connection import Peer
from leveret.amqp.hub import Hub
from leveret.cluster.catalog import Catalog, Verb
from leveret.cluster.changes import Change as Definition
from leveret.cluster.placement import LOCAL, home_of_owner
from leveret.core.broker import Broker
from leveret.core.changes import Change, DeleteQueue
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, LeveretError, Unreachable
from leveret.core.properties import Properties
from leveret.core.queue import Queue
from leveret.node import letter as letters
from leveret.node import replying
from leveret.node.directory import Directory
from leveret.node.doubts import Doubts
from leveret.node.errands import Errands
from leveret.node.front.backend import Backend
from leveret.node.front.connection import Caller, FrontConnection
from leveret.node.guest import Guest
from leveret.node.knowledge import Knowledge
from leveret.node.letter import Letter
from leveret.node.link import Conversation, Link
from leveret.node.outbox import Outbox
from leveret.node.replying import RemoteReplies
from leveret.node.sessions import RemoteListener, RemoteSession, caller_of
from leveret.node.shard import Shard
from leveret.node.web.courier import Courier
from leveret.node.web.edges import Edge
from leveret.node.wire import is_refusal
from leveret.security.mutual_tls import MutualTls
from leveret.security.peers import is_loopback
from leveret.telemetry.logs import Log

RETRY_S = 0.1
ASKED_S = 2.0
DIAL_S = 2.0

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

    def __init__(self, name: str, cluster: str, secret: bytes, catalog: Catalog, hub: Hub, owners: Owners) -> None:
        """Serve nothing yet; `hub` is that of the fronts, over the broker of the catalog's copy."""
        self.name = name
        self.cluster = cluster
        self.secret = secret
        self.catalog = catalog
        self.hub = hub
        self.announce: Callable[[int], None] = lambda version: None
        """Told of each new version that this node has made."""
        self.is_proven: Callable[[str], bool] = lambda home: True
        """Whether nobody else can have a shard of this node now."""
        self.questions: dict[str, Callable[[], Any]] = {}
        """What other nodes may ask, beside versions: each gives what is fit for JSON."""
        self.tls: MutualTls | None = None
        """What links are encrypted with; None: they are not, and lead to this machine only."""
        self.plain_remote = False
        """Whether they may lead elsewhere nevertheless."""
        self.errands = Errands()
        """What other nodes may let this one do."""
        self.shards: dict[str, Shard] = {}
        self.links: dict[str, Link] = {}
        self.outboxes: dict[str, Outbox] = {}
        self._ended_links: Counter[tuple[str, str]] = Counter()
        self.edges: dict[str, Edge] = {}
        """The APIs of the node itself, for other nodes."""
        self.courier = Courier(self)
        self._directory = Directory(catalog.replica.placements.shards)
        self.definitions = self._directory.definitions
        self._knowledge = Knowledge(catalog, lambda request: [self._ask(link, request) for link in self.links.values()])
        self.doubts = Doubts(catalog, hub)
        self._around: tuple[frozenset[str], frozenset[str]] | None = None
        self._owners = owners
        self._callers: dict[Backend, Caller] = {}
        self._served_by: dict[Backend, str] = {}
        self._dialing: dict[str, asyncio.Task[None]] = {}
        self._identities = 0
        self._server: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._changing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        hub.keep_password = self._keep_password
        hub.replies.node = name
        hub.replies.elsewhere = self._replies_on

    # Coming and going

    async def start(self, host: str, port: int) -> int:
        """Listen for other nodes, and learn what there is; gives the port."""
        accepting = None if self.tls is None else self.tls.accepting
        self._server = await self._loop.create_server(lambda: Link(self, dials=False), host, port, ssl=accepting)
        self.catalog.listeners.append(self._follow)
        self.catalog.replica.followers.append(self._know)
        await self.catalog.prove()
        await self.catalog.change(partial(_drop_queues_of, lambda home: home == LOCAL + self.name))
        self._tasks = [asyncio.create_task(self._look_around()), asyncio.create_task(self.catalog.follow())]
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Leave."""
        tasks = [*self._tasks, *self._dialing.values(), *self._changing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.catalog.close()
        await self.errands.close()
        for shard in self.shards.values():
            shard.hub.core.gone = None
        for outbox in self.outboxes.values():
            outbox.close()
        if self._server is not None:
            self._server.close()
        for link in list(self.links.values()):
            link.close()

    def connect(self, peer: Peer) -> FrontConnection:
        """The server's end of a client's connection."""
        return FrontConnection(self.hub, peer, self)

    # Shards

    def prepare(self, home: str, core: Broker) -> None:
        """Let no dead letter be lost in a broker that is to be a shard; before any time passes in it."""
        self.outboxes[home] = Outbox(home, core, self)

    def serve(self, shard: Shard) -> None:
        """Serve a shard from now on, for which everything is prepared."""
        shard.reconcile(self.catalog.replica)
        shard.incumbents.is_present = lambda node: node in self.present
        shard.begin()
        shard.knows = self.knows
        shard.is_proven = partial(self.is_proven, shard.home)
        shard.hub.core.leaving = False
        shard.hub.core.gone = partial(self._hear_gone, shard)
        self.shards[shard.home] = shard
        self.outboxes[shard.home].start(shard.hub)
        self.look()

    def forsake(self, home: str) -> None:
        """Serve a shard no more: its clients look for its next owner."""
        shard = self.shards.pop(home, None)
        outbox = self.outboxes.pop(home, None)
        if outbox is not None:
            outbox.close()
        if shard is not None:
            shard.leave()
            shard.hub.core.leaving = True
            shard.edges.close()
            shard.hub.core.gone = None
            for guest in list(shard.guests):
                guest.leave("the shard has another owner")
        for backend in [each for each, owner in self._served_by.items() if (each.home, owner) == (home, self.name)]:
            del self._served_by[backend]
            backend.end()  # a guest who stays would be told what is meant for the next one
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
            self._look_for_orphans()
            self.doubts.look()
            for shard in list(self.shards.values()):
                shard.look()
            for outbox in list(self.outboxes.values()):
                outbox.retry()
            await asyncio.sleep(RETRY_S)

    async def _dial(self, name: str) -> None:
        """Call a node, of which the one with the lower name calls."""
        address = self._owners.address_of(name)
        calling = None if self.tls is None else self.tls.calling
        try:
            if address is not None and self._may_call(address[0]):
                async with asyncio.timeout(DIAL_S):
                    await self._loop.create_connection(lambda: Link(self, dials=True), *address, ssl=calling)
        except OSError as error:
            LOG.info("node not reached", node=name, reason=str(error) or "it took too long")
        finally:
            del self._dialing[name]

    def _may_call(self, host: str) -> bool:
        """Whether what is said to a host cannot be read on the way, or may be."""
        if self.tls is not None or self.plain_remote or is_loopback(host):
            return True
        LOG.warning("node not called", host=host, reason="no TLS", advice="give cluster_tls_cert, or cluster_plain")
        return False

    # For fronts

    @property
    def version(self) -> int:
        """The version of the definitions that clients are served by."""
        return self.catalog.version

    @property
    def is_current(self) -> bool:
        """Whether clients may be answered by them."""
        return self.doubts.none

    def hold(self, connection: FrontConnection) -> None:
        """Hear a client again when they may be."""
        self.doubts.hold(connection)

    def home_of(self, vhost: str, queue: str) -> str:
        """The shard of a queue."""
        return self.catalog.replica.home_of(vhost, queue)

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        """Change a definition on every node."""
        self._begin(change.apply, done)

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
        owner = self.owner_of(home)
        if owner == self.name and home in self.shards:
            self._served_by[backend] = owner
            backend.connection.attached(backend, Guest(self.shards[home], caller, backend))
        elif owner in self.links:
            self._served_by[backend] = owner
            backend.connection.attached(backend, RemoteSession(self.links[owner], backend, caller))

    @property
    def present(self) -> list[str]:
        """Who is there."""
        return self._owners.nodes()

    def owner_of(self, home: str) -> str | None:
        """The node that serves a shard."""
        return home[len(LOCAL) :] if home.startswith(LOCAL) else self._owners.owner_of(home)

    # For outboxes

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        """See Office."""
        return self._directory.reached(vhost, exchange, keys, properties)

    def wake(self, job: Callable[[], None]) -> None:
        """See Office; a loop that has ended needs to know nothing more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(job)

    def post(self, home: str, letter: Letter, done: Callable[[bool], None]) -> None:
        """See Office."""
        owner = self.owner_of(home)
        if owner == self.name:
            self._bring(home, letter, lambda refusal: self.wake(partial(done, not refusal)))
        elif owner in self.links:
            request = letters.encode(letter, home, self.catalog.version)
            self.links[owner].ask(request, lambda answer: done(answer == b""))
        else:
            self.soon(partial(done, False))

    def _bring(self, home: str, letter: Letter, answer: Callable[[bytes], None]) -> None:
        """Give a letter to a shard of this node; the answer is empty when it is durable, or says why it is not."""
        shard = self.shards.get(home)
        try:
            if shard is None:
                raise Unreachable(f"shard {home} is not on node '{self.name}'")
            shard.bring(letter, partial(answer, b""))
        except LeveretError as error:
            answer(str(error).encode())

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
        self._ended_links.update(_bytes_of(link))

    def link_bytes(self) -> Counter[tuple[str, str]]:
        """What has passed between this node and each other one, by direction."""
        found = Counter(self._ended_links)
        for link in self.links.values():
            found.update(_bytes_of(link))
        return found

    def opened(self, link: Link, number: int, request: dict[str, Any]) -> Conversation:
        """A client of another node wants something of a shard of ours."""
        if "edge" in request:
            return self.courier.opened(link, number, request)
        home = request.get("shard")
        shard = self.shards.get(home) if isinstance(home, str) else None
        if shard is None:
            raise Unreachable(f"shard {home} is not on node '{self.name}'")
        return RemoteListener(link, number, shard, caller_of(request, self.hub.access.users))

    def asked(self, link: Link, request: bytes, answer: Callable[[bytes], None]) -> None:
        """Another node wants us to know a version of the definitions, and to have a dead letter if it sends one.

        Or it has a question or an errand, or a reply for a client of ours.
        """
        head, _, wire = request.partition(b"\n")
        asked = json.loads(head)
        question = self.questions.get(str(asked.get("question")))
        if question is not None:
            answer(json.dumps(question()).encode())
            return
        if "errand" in asked:
            self.errands.run(asked, answer)
            return
        if "reply" in asked:
            answer(b"" if replying.hand_over(self.hub, asked, wire) else b"lost")
            return
        if "version" not in asked:
            raise InvalidArgument(f"node '{link.peer}' asks for what nobody knows: is it of another version?")
        letter = letters.decode(asked, wire) if "letter" in asked else None

        def known(refusal: bytes) -> None:
            if refusal or letter is None:
                answer(refusal or (self.catalog.reader.encode() if "reader" in asked else b""))
            else:
                self._bring(str(asked.get("shard")), letter, answer)

        if self.knows(int(asked["version"]), lambda is_known: known(b"" if is_known else b"no catalog within reach")):
            known(b"")

    def knows(self, version: int, then: Callable[[bool], None]) -> bool:
        """Whether this node has a version of the definitions; if not, `then` whether it has it after another look."""
        if version <= self.catalog.version:
            return True
        task = asyncio.create_task(self.catalog.catch_up())
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)
        task.add_done_callback(lambda done: then(not done.cancelled() and done.exception() is None))
        return False

    def _replies_on(self, node: str) -> RemoteReplies | None:
        """Who takes the replies for clients of another node."""
        return RemoteReplies(self.links[node]) if node in self.links else None

    # Definitions

    async def decide(self, verb: Verb) -> Any:
        """Run a verb for the whole cluster; return when no node answers by what was before."""
        result = await self.catalog.change(verb)
        await self._knowledge.spread(self.catalog.version, self.announce)
        return result

    def _begin(self, verb: Verb, done: Callable[[Any], None]) -> None:
        """Decide something, then say what came of it."""

        async def decide() -> None:
            try:
                result = await self.decide(verb)
            except Exception as error:
                result = error
            done(result)

        task = asyncio.create_task(decide())
        self._changing.add(task)
        task.add_done_callback(self._changing.discard)

    async def ask_all(self, question: str) -> dict[str, Any]:
        """What every other node answers, by its name; those who do not in time are left out."""
        request = json.dumps({"question": question}).encode()
        waiting = {name: self._ask(link, request) for name, link in self.links.items()}
        if waiting:
            await asyncio.wait(waiting.values(), timeout=ASKED_S)
        told = {name: answer.result() for name, answer in waiting.items() if answer.done()}
        return {name: json.loads(data) for name, data in told.items() if data and not is_refusal(data)}

    def _ask(self, link: Link, request: bytes) -> asyncio.Future[bytes | None]:
        """What another node answers; None when it is lost meanwhile."""
        answer: asyncio.Future[bytes | None] = self._loop.create_future()

        def answered(data: bytes | None) -> None:
            if not answer.done():
                answer.set_result(data)

        link.ask(request, answered)
        return answer

    def _follow(self, changes: list[Definition]) -> None:
        """Changes are in the log: the shards of this node follow."""
        self._directory.follow(changes)
        for shard in self.shards.values():
            shard.follow(changes, self.catalog.replica.homes)

    def _know(self, change: Definition) -> None:
        """A change was made on another node, or taken back: whoever lets clients in has to know."""
        self.hub.access.follow(change.kind, change.definition, change.removed)

    def _keep_password(self, name: str, password_hash: str) -> None:
        """Let every node have a better hash of a password."""
        self._begin(lambda core: self.hub.access.change_password(name, password_hash), lambda _: None)

    # Queues that go by themselves

    def _hear_gone(self, shard: Shard, queue: Queue) -> None:
        """A shard of this node has no such queue any more; from whatever thread let time pass there."""
        self._loop.call_soon_threadsafe(self._gone, shard, queue.vhost, queue.name)

    def _gone(self, shard: Shard, vhost: str, name: str) -> None:
        """Let the catalog have no such queue either, unless it was declared again meanwhile."""

        def forget(core: Broker) -> None:
            mine = self.shards.get(shard.home) is shard and self.owner_of(shard.home) == self.name
            if mine and not shard.has_queue(vhost, name):
                DeleteQueue(vhost, name).apply(core)

        if self.catalog.replica.homes.get((vhost, name)) != shard.home:
            return
        # Not before it is durable: what a node does that has lost the shard, and does not know it yet, never is.
        with suppress(JournalFailed, BrokerClosed), shard.hub.locked():
            shard.hub.when_durable(lambda: self._begin(forget, lambda _: None))

    def _look_for_orphans(self) -> None:
        """When others come or go: one of those who stay removes the queues whose connections went with their node."""
        present = frozenset(self._owners.nodes())
        around = present, frozenset(self.links)
        if around == self._around:
            return
        self._around = around
        if self.name != min(present, default=""):
            return
        alive = {LOCAL + each for each in present.union(self.links)}

        def done(result: object) -> None:
            if isinstance(result, Exception):
                self._around = None  # to be tried again

        self._begin(partial(_drop_queues_of, lambda home: home not in alive), done)


def _bytes_of(link: Link) -> dict[tuple[str, str], int]:
    """What has passed on a link."""
    return {(link.peer, "received"): link.received_bytes, (link.peer, "sent"): link.sent_bytes}


def _drop_queues_of(chosen: Callable[[str], bool], core: Broker) -> None:
    """Delete the queues of connections on chosen nodes."""
    for vhost in core.topology.vhosts.values():
        for queue in [each for each in vhost.queues.values() if isinstance(each.owner, str)]:
            if chosen(home_of_owner(queue.owner)):
                core.delete_queue(queue)
