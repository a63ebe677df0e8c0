"""A node: which shards it serves, how it reaches those of others, and what it knows of the whole cluster."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from leveret.cluster.catalog.auto_deletion import Departures, drop_queues_of
from leveret.cluster.catalog.catalog import Catalog, Verb
from leveret.cluster.catalog.changes import Change as Definition
from leveret.cluster.catalog.directory import Directory
from leveret.cluster.catalog.propagation import Knowledge
from leveret.cluster.catalog.stale_clients import Doubts
from leveret.cluster.coordination.placement import LOCAL
from leveret.cluster.forwarding.edges import Edge
from leveret.cluster.forwarding.forwarder import Courier
from leveret.cluster.proxy import direct_replies
from leveret.cluster.proxy.connection import Caller, FrontConnection
from leveret.cluster.proxy.direct_replies import RemoteReplies
from leveret.cluster.proxy.proxied import Guest
from leveret.cluster.proxy.sessions import RemoteListener, RemoteSession, caller_of
from leveret.cluster.proxy.shard_connection import Backend
from leveret.cluster.rpc.calls import Errands
from leveret.cluster.rpc.link import Conversation, Link
from leveret.cluster.rpc.peers import Neighbours, Owners
from leveret.cluster.rpc.wire import is_refusal, unpacked
from leveret.cluster.shards.shard import Shard
from leveret.cluster.transfer import batch as bundles
from leveret.cluster.transfer.batch import Bundle
from leveret.cluster.transfer.outbox import Outbox
from leveret.core.broker import Broker
from leveret.core.changes import Change
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, LeveretError, Unreachable
from leveret.core.properties import Properties
from leveret.observability.logs import Log
from leveret.protocols.amqp.connection import Peer
from leveret.protocols.amqp.hub import Hub

RETRY_S = 0.1
FOLLOW_PAUSE_S = 1.0
ASKED_S = 2.0

T = TypeVar("T")
LOG = Log("node")


class Node:
    """One node of a cluster."""

    def __init__(
        self, name: str, cluster: str, keys: tuple[bytes, ...], catalog: Catalog, hub: Hub, owners: Owners
    ) -> None:
        """Serve nothing yet; `hub` is that of the fronts, over the broker of the catalog's copy.

        `keys` are those by which nodes authenticate each other: see leveret.cluster.rpc.handshake.
        """
        self.name = name
        self.cluster = cluster
        self.keys = keys
        self.catalog = catalog
        self.hub = hub
        self.announce: Callable[[int], None] = lambda version: None
        """Told of each new version that this node has made."""
        self.is_proven: Callable[[str], bool] = lambda home: True
        """Whether no other node can own a shard of this node now."""
        self.questions: dict[str, Callable[[], Any]] = {}
        """What other nodes may ask, beside versions: each gives what is fit for JSON."""
        self.errands = Errands()
        """What other nodes may let this one do."""
        self.shards: dict[str, Shard] = {}
        self.neighbours = Neighbours(name, owners, lambda calls: Link(self, calls))
        self.links = self.neighbours.links
        self.outboxes: dict[str, Outbox] = {}
        self.edges: dict[str, Edge] = {}
        """The APIs of the node itself, for other nodes."""
        self.courier = Courier(self)
        catalog.replica.tell_local(self.shards.__contains__)
        self._directory = Directory(catalog.replica.placements.shards, self.shards.__contains__)
        self.definitions = self._directory.definitions
        self._knowledge = Knowledge(catalog, lambda request: [self._ask(link, request) for link in self.links.values()])
        self.doubts = Doubts(catalog, hub)
        self._departures = Departures(self)
        self._owners = owners
        self._callers: dict[Backend, Caller] = {}
        self._served_by: dict[Backend, str] = {}
        self._identities = 0
        self._alarm: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._changing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        hub.keep_password = self._keep_password
        hub.replies.node = name
        hub.replies.elsewhere = self._replies_on

    # Coming and going

    async def start(self, host: str, port: int) -> int:
        """Listen for other nodes, and learn what there is; gives the port."""
        bound = self.neighbours.listen(host, port)
        self.catalog.listeners.append(self._follow)
        self.catalog.on_leap = self._leap
        self.catalog.replica.followers.append(self._know)
        await self.catalog.prove()
        await self.catalog.change(partial(drop_queues_of, lambda home: home == LOCAL + self.name))
        self._tasks = [asyncio.create_task(self._look_around()), asyncio.create_task(self._follow_catalog())]
        return bound

    async def stop(self) -> None:
        """Leave."""
        tasks = [*self._tasks, *self._changing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.neighbours.leave()
        await self._knowledge.close()
        await self.catalog.close()
        await self.errands.close()
        for shard in self.shards.values():
            shard.hub.core.gone = None
        for outbox in self.outboxes.values():
            outbox.close()
        self.neighbours.hang_up()

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
        shard.knows = self._knowledge.knows
        shard.is_proven = partial(self.is_proven, shard.home)
        shard.hub.core.leaving = False
        shard.hub.core.gone = partial(self._departures.hear, shard)
        self.shards[shard.home] = shard
        shard.hub.set_alarm(self._alarm)
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

    def set_alarm(self, reason: str | None) -> None:
        """Let the shards of this node take no more publishes, whichever node they come by, or take them again."""
        self._alarm = reason
        for shard in self.shards.values():
            with suppress(JournalFailed, BrokerClosed):
                shard.hub.set_alarm(reason)

    def look(self) -> None:
        """Something has changed: find ways to shards that have none."""
        for backend in [each for each in self._callers if not each.attached]:
            try:
                self._look_for(backend)
            except Exception as error:  # whatever it is: others look for shards, too
                LOG.error("shard not looked for", error, shard=backend.home)

    def _look_for(self, backend: Backend) -> None:
        if self._is_gone(backend.home):
            self.detach(backend)
            backend.connection.gone_backend(backend)
        else:
            self._find(backend)

    async def _look_around(self) -> None:
        """Reach every node that is there, and every shard that clients wait for; whatever fails is tried again."""
        while True:
            shards, outboxes = self.shards.values(), self.outboxes.values()
            own = (self.neighbours.look, self.look, self._departures.look, self.doubts.look)
            for look in (*own, *(each.look for each in shards), *(each.retry for each in outboxes)):
                try:
                    look()
                except Exception as error:
                    LOG.error("look failed", error)
            await asyncio.sleep(RETRY_S)

    async def _follow_catalog(self) -> None:
        """Make the changes of others; one that fails is made when the next one comes, or after a while."""
        while True:
            try:
                await self.catalog.follow()
            except Exception as error:
                LOG.error("definitions not followed", error)
                await asyncio.sleep(FOLLOW_PAUSE_S)

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
        self.begin(change.apply, done)

    def insist(self, change: Change[Any]) -> None:
        """Change it, with as many attempts as it takes."""
        self._departures.insist(change.apply)

    def attach(self, backend: Backend, caller: Caller) -> None:
        """Find a way to the owner of a shard, now and whenever it changes."""
        self._callers[backend] = caller
        self._find(backend)

    def renew(self, backend: Backend, caller: Caller) -> None:
        """Attach it from now on for a client that may do something else."""
        if backend in self._callers:
            self._callers[backend] = caller

    def detach(self, backend: Backend) -> None:
        """That way is not needed any more."""
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
        """Attach a backend if its shard is served by a node that can be reached."""
        caller, home = self._callers[backend], backend.home
        owner = self.owner_of(home)
        if owner == self.name and home in self.shards:
            try:
                guest = Guest(self.shards[home], caller, backend)
            except LeveretError as error:  # the next look may be luckier; until then the client waits
                LOG.debug("client not let in", shard=home, reason=error)
                return
            self._served_by[backend] = owner
            backend.connection.attached(backend, guest)
        elif owner in self.links:
            self._served_by[backend] = owner
            backend.connection.attached(backend, RemoteSession(self.links[owner], backend, caller))

    def _is_gone(self, home: str) -> bool:
        """Whether a home went with its node: of the queues of its connections there is nothing left."""
        if not home.startswith(LOCAL):
            return False
        return home.removeprefix(LOCAL) not in {self.name, *self.links, *self._owners.nodes()}

    @property
    def present(self) -> list[str]:
        """Who is there."""
        return self._owners.nodes()

    def owner_of(self, home: str) -> str | None:
        """The node that serves a shard."""
        return home[len(LOCAL) :] if home.startswith(LOCAL) else self._owners.owner_of(home)

    # For outboxes

    def _open_to(self, home: str) -> str | None:
        """The node that letters for a shard can be sent to; None: there is none, or what it was sent before waits
        here.
        """
        owner = self.owner_of(home)
        link = None if owner is None else self.links.get(owner)
        return None if link is not None and link.is_slow else owner

    def reached(self, vhost: str, exchange: str, keys: list[str], properties: Properties) -> dict[str, set[str]]:
        """See Office."""
        return self._directory.reached(vhost, exchange, keys, properties)

    def wake(self, job: Callable[[], None]) -> None:
        """See Office; a loop that has ended needs to know nothing more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(job)

    def post(self, home: str, bundle: Bundle, done: Callable[[int], None]) -> None:
        """See Office."""
        owner = self._open_to(home)
        if owner == self.name:
            self._bring(home, bundle, lambda answer: self.wake(partial(done, bundles.answered(answer))))
        elif owner in self.links:
            request = bundles.encode(bundle, home, self.catalog.version)
            self.links[owner].ask(request, lambda answer: done(bundles.answered(answer)))
        else:
            self.soon(partial(done, 0))

    def _bring(self, home: str, bundle: Bundle, answer: Callable[[bytes], None]) -> None:
        """Give letters to a shard of this node; the answer is how many are durable there, or why none is."""
        shard = self.shards.get(home)
        try:
            if shard is None:
                raise Unreachable(f"shard {home} is not on node '{self.name}'")
            shard.bring(bundle, lambda taken: answer(b"%d" % taken))
        except LeveretError as error:
            answer(str(error).encode())

    # For links

    def up(self, link: Link) -> None:
        """Another node is reached."""
        self.neighbours.up(link)
        self.look()

    def down(self, link: Link) -> None:
        """Another node is not reached any more."""
        self.neighbours.down(link)

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
        """Another node wants us to know a version of the definitions, and to have letters if it sends some.

        Or it has a question or an errand, or a reply for a client of ours.
        """
        head, _, wire = request.partition(b"\n")
        asked = unpacked(head)
        question = self.questions.get(str(asked.get("question")))
        if question is not None:
            answer(json.dumps(question()).encode())
            return
        if "errand" in asked:
            self.errands.run(asked, answer)
            return
        if "reply" in asked:
            answer(b"" if direct_replies.hand_over(self.hub, asked, wire) else b"lost")
            return
        if "version" not in asked:
            raise InvalidArgument(f"node '{link.peer}' asks for what this one does not know: is it of another version?")
        bundle = bundles.decode(asked, wire) if "letters" in asked else None

        def told(is_known: bool) -> None:
            if not is_known:
                answer(b"no catalog within reach")
            elif bundle is not None:
                self._bring(str(asked.get("shard")), bundle, answer)
            else:
                answer(self.catalog.reader.encode() if "reader" in asked else b"")

        if self._knowledge.knows(int(asked["version"]), told):
            told(True)

    def _replies_on(self, node: str) -> RemoteReplies | None:
        """Who takes the replies for clients of another node."""
        return RemoteReplies(self.links[node]) if node in self.links else None

    # Definitions

    async def decide(self, verb: Verb) -> Any:
        """Run a verb for the whole cluster; return when no node answers by what was before."""
        result = await self.catalog.change(verb)
        await self._knowledge.spread(self.catalog.version, self.announce)
        return result

    def begin(self, verb: Verb, done: Callable[[Any], None]) -> None:
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
            shard.follow(changes, self.catalog.replica)

    def _leap(self, changes: list[Definition]) -> None:
        """The definitions went to another place of their log, which may be one before this."""
        self._directory.follow(changes)
        self._knowledge.leap()
        for shard in self.shards.values():
            shard.leap(changes, self.catalog.replica)

    def _know(self, change: Definition) -> None:
        """A change was made on another node, or taken back: the parts that let clients in have to know."""
        self.hub.access.follow(change.kind, change.definition, change.removed)

    def _keep_password(self, name: str, password_hash: str) -> None:
        """Let every node have a better hash of a password."""
        self.begin(lambda core: self.hub.access.change_password(name, password_hash), lambda _: None)
