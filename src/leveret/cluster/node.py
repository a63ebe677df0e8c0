"""A node: which shards it serves, how it reaches those of others, and what it knows of the whole cluster."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from leveret.cluster.catalog.auto_deletion import AutoDeletion, drop_queues_of
from leveret.cluster.catalog.catalog import ClusterCatalog, Verb
from leveret.cluster.catalog.changes import DefinitionChange as Definition
from leveret.cluster.catalog.propagation import Propagation, StaleClients
from leveret.cluster.catalog.replica import QueueDirectory
from leveret.cluster.coordination.placement import LOCAL
from leveret.cluster.forwarding.forwarder import Forwarder
from leveret.cluster.forwarding.handler import Api
from leveret.cluster.proxy.connection import ProxyCaller, ProxyConnection
from leveret.cluster.proxy.proxied import ProxiedClient
from leveret.cluster.proxy.sessions import RemoteListener, RemoteReplies, RemoteSession, caller_of, hand_over
from leveret.cluster.proxy.shard_connection import ShardConnection
from leveret.cluster.rpc.calls import CallHandlers
from leveret.cluster.rpc.link import LinkStream, PeerLink
from leveret.cluster.rpc.peers import Owners, Peers
from leveret.cluster.rpc.wire import is_refusal, unpacked
from leveret.cluster.shards.shard import Shard
from leveret.cluster.transfer.message import OutboxBatch, answered, decode, encode
from leveret.cluster.transfer.outbox import Outbox
from leveret.core.broker import Broker
from leveret.core.changes import Change
from leveret.core.errors import BrokerClosed, InvalidArgument, JournalFailed, LeveretError, Unreachable
from leveret.observability.logs import Log
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.protocols.amqp.hub import Hub

RETRY_S = 0.1
FOLLOW_PAUSE_S = 1.0
ASKED_S = 2.0

T = TypeVar("T")
LOG = Log("node")


class Node:
    """One node of a cluster."""

    def __init__(
        self, name: str, cluster: str, keys: tuple[bytes, ...], catalog: ClusterCatalog, hub: Hub, owners: Owners
    ) -> None:
        """Serve nothing yet; `hub` is that of the proxies, over the broker of the catalog's copy.

        `keys` are those by which nodes authenticate each other: see leveret.cluster.rpc.wire.
        """
        self.name = name
        self.cluster = cluster
        self.keys = keys
        self.catalog = catalog
        self.hub = hub
        self.announce: Callable[[int], None] = lambda version: None
        """Told of each new version that this node has made."""
        self.is_proven: Callable[[str], bool] = lambda shard_id: True
        """Whether no other node can own a shard of this node now."""
        self.questions: dict[str, Callable[[], Any]] = {}
        """What other nodes may ask, beside versions: each gives what is fit for JSON."""
        self.call_handlers = CallHandlers()
        """What other nodes may let this one do."""
        self.shards: dict[str, Shard] = {}
        self.peers = Peers(name, owners, lambda calls: PeerLink(self, calls))
        self.links, self.down = self.peers.links, self.peers.down
        self.outboxes: dict[str, Outbox] = {}
        self.edges: dict[str, Api] = {}
        """The APIs of the node itself, for other nodes."""
        self.forwarder = Forwarder(self)
        catalog.replica.tell_local(self.shards.__contains__)
        self._directory = QueueDirectory(catalog.replica.placements.shards, self.shards.__contains__)
        self.definitions, self.reached = self._directory.definitions, self._directory.reached
        self._propagation = Propagation(
            catalog, lambda request: [self._ask(link, request) for link in self.links.values()]
        )
        self.stale_clients = StaleClients(catalog, hub)
        self.hold, self.shard_id_of = self.stale_clients.hold, catalog.replica.shard_id_of
        self._auto_deletion = AutoDeletion(self)
        self._owners = owners
        self._callers: dict[ShardConnection, ProxyCaller] = {}
        self._served_by: dict[ShardConnection, str] = {}
        self._identities = 0
        self._alarm: str | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._changing: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        hub.keep_password = lambda name, password_hash: self.begin(
            lambda core: hub.access.change_password(name, password_hash), lambda _: None
        )
        hub.replies.node = name
        hub.replies.in_thread = self._replies_on

    # Coming and going

    async def start(self, host: str, port: int) -> int:
        """Listen for other nodes, and learn what there is; gives the port."""
        bound = self.peers.listen(host, port)
        self.catalog.listeners.append(self._follow)
        self.catalog.on_resync = self._resync
        self.catalog.replica.followers.append(self._know)
        await self.catalog.renew_lease()
        await self.catalog.change(partial(drop_queues_of, lambda shard_id: shard_id == LOCAL + self.name))
        self._tasks = [asyncio.create_task(self._look_around()), asyncio.create_task(self._follow_catalog())]
        return bound

    async def stop(self) -> None:
        tasks = [*self._tasks, *self._changing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.peers.leave()
        await self._propagation.close()
        await self.catalog.close()
        await self.call_handlers.close()
        for shard in self.shards.values():
            shard.hub.core.gone = None
        for outbox in self.outboxes.values():
            outbox.close()
        self.peers.hang_up()

    def connect(self, peer: AmqpPeer) -> ProxyConnection:
        """The server's end of a client's connection."""
        return ProxyConnection(self.hub, peer, self)

    # Shards

    def prepare(self, shard_id: str, core: Broker) -> None:
        """Let no dead letter be lost in a broker that is to be a shard; before any time passes in it."""
        self.outboxes[shard_id] = Outbox(shard_id, core, self)

    def serve(self, shard: Shard) -> None:
        """Serve a shard from now on, for which everything is prepared."""
        shard.reconcile(self.catalog.replica)
        shard.exclusive_consumers.is_present = lambda node: node in self.present
        shard.begin()
        shard.knows = self._propagation.knows
        shard.is_proven = partial(self.is_proven, shard.shard_id)
        shard.hub.core.leaving = False
        shard.hub.core.gone = partial(self._auto_deletion.hear, shard)
        self.shards[shard.shard_id] = shard
        shard.hub.set_alarm(self._alarm)
        self.outboxes[shard.shard_id].start(shard.hub)
        self.look()

    def forsake(self, shard_id: str) -> None:
        """Serve a shard no more: its clients look for its next owner."""
        shard = self.shards.pop(shard_id, None)
        outbox = self.outboxes.pop(shard_id, None)
        if outbox is not None:
            outbox.close()
        if shard is not None:
            shard.leave()
            shard.hub.core.leaving = True
            shard.edges.close()
            shard.hub.core.gone = None
            for proxied in list(shard.proxied_clients):
                proxied.leave("the shard has another owner")
        for shard_connection in [
            each for each, owner in self._served_by.items() if (each.shard_id, owner) == (shard_id, self.name)
        ]:
            del self._served_by[shard_connection]
            shard_connection.forsake("the shard has another owner")

    def set_alarm(self, reason: str | None) -> None:
        """Let the shards of this node take no more publishes, whichever node they come by, or take them again."""
        self._alarm = reason
        for shard in self.shards.values():
            with suppress(JournalFailed, BrokerClosed):
                shard.hub.set_alarm(reason)

    def look(self) -> None:
        """Something has changed: find ways to shards that have none."""
        for shard_connection in [each for each in self._callers if not each.attached]:
            try:
                self._look_for(shard_connection)
            except Exception as error:  # whatever it is: others look for shards, too
                LOG.error("shard not looked for", error, shard=shard_connection.shard_id)

    def _look_for(self, shard_connection: ShardConnection) -> None:
        if self._is_gone(shard_connection.shard_id):
            self.detach(shard_connection)
            shard_connection.connection.gone_backend(shard_connection)
        else:
            self._find(shard_connection)

    async def _look_around(self) -> None:
        """Reach every node that is there, and every shard that clients wait for; whatever fails is tried again."""
        while True:
            shards, outboxes = self.shards.values(), self.outboxes.values()
            own = (self.peers.look, self.look, self._auto_deletion.look, self.stale_clients.look)
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

    # For proxies

    @property
    def version(self) -> int:
        return self.catalog.version

    @property
    def is_current(self) -> bool:
        return self.catalog.read_lease.is_valid

    def change(self, change: Change[T], done: Callable[[T | Exception], None]) -> None:
        self.begin(change.apply, done)

    def insist(self, change: Change[Any]) -> None:
        self._auto_deletion.insist(change.apply)

    def attach(self, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        self._callers[shard_connection] = caller
        self._find(shard_connection)

    def renew(self, shard_connection: ShardConnection, caller: ProxyCaller) -> None:
        if shard_connection in self._callers:
            self._callers[shard_connection] = caller

    def detach(self, shard_connection: ShardConnection) -> None:
        self._callers.pop(shard_connection, None)
        self._served_by.pop(shard_connection, None)

    def soon(self, job: Callable[[], None]) -> None:
        self._loop.call_soon(job)

    def identify(self) -> str:
        self._identities += 1
        return f"{self.name}/{self._identities}"

    def _find(self, shard_connection: ShardConnection) -> None:
        """Attach a backend if its shard is served by a node that can be reached."""
        caller, shard_id = self._callers[shard_connection], shard_connection.shard_id
        owner = self.owner_of(shard_id)
        if owner == self.name and shard_id in self.shards:
            try:
                proxied = ProxiedClient(self.shards[shard_id], caller, shard_connection)
            except LeveretError as error:  # the next look may be luckier; until then the client waits
                LOG.debug("client not let in", shard=shard_id, reason=error)
                return
            self._served_by[shard_connection] = owner
            shard_connection.connection.attached(shard_connection, proxied)
        elif owner in self.links:
            self._served_by[shard_connection] = owner
            shard_connection.connection.attached(
                shard_connection, RemoteSession(self.links[owner], shard_connection, caller)
            )

    def _is_gone(self, shard_id: str) -> bool:
        """Whether a shard went with its node: of the queues of its connections there is nothing left."""
        if not shard_id.startswith(LOCAL):
            return False
        return shard_id.removeprefix(LOCAL) not in {self.name, *self.links, *self._owners.nodes()}

    @property
    def present(self) -> list[str]:
        return self._owners.nodes()

    def owner_of(self, shard_id: str) -> str | None:
        return shard_id[len(LOCAL) :] if shard_id.startswith(LOCAL) else self._owners.owner_of(shard_id)

    # For outboxes

    def _open_to(self, shard_id: str) -> str | None:
        """The node that outbox messages for a shard can be sent to; None: there is none, or what it was sent before
        waits here.
        """
        owner = self.owner_of(shard_id)
        link = None if owner is None else self.links.get(owner)
        return None if link is not None and link.is_slow else owner

    def wake(self, job: Callable[[], None]) -> None:
        """See OutboxNode; a loop that has ended needs to know nothing more."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(job)

    def post(self, shard_id: str, batch: OutboxBatch, done: Callable[[int], None]) -> None:
        owner = self._open_to(shard_id)
        if owner == self.name:
            self._bring(shard_id, batch, lambda answer: self.wake(partial(done, answered(answer))))
        elif owner in self.links:
            request = encode(batch, shard_id, self.catalog.version)
            self.links[owner].ask(request, lambda answer: done(answered(answer)))
        else:
            self.soon(partial(done, 0))

    def _bring(self, shard_id: str, batch: OutboxBatch, answer: Callable[[bytes], None]) -> None:
        """Give outbox messages to a shard of this node; the answer is how many are durable there, or why none is."""
        shard = self.shards.get(shard_id)
        try:
            if shard is None:
                raise Unreachable(f"shard {shard_id} is not on node '{self.name}'")
            shard.bring(batch, lambda taken: answer(b"%d" % taken))
        except LeveretError as error:
            answer(str(error).encode())

    # For links

    def up(self, link: PeerLink) -> None:
        self.peers.up(link)
        self.look()

    def opened(self, link: PeerLink, number: int, request: dict[str, Any]) -> LinkStream:
        """A client of another node wants something of a shard of ours."""
        if "edge" in request:
            return self.forwarder.opened(link, number, request)
        shard_id = request.get("shard")
        shard = self.shards.get(shard_id) if isinstance(shard_id, str) else None
        if shard is None:
            raise Unreachable(f"shard {shard_id} is not on node '{self.name}'")
        return RemoteListener(link, number, shard, caller_of(request, self.hub.access.users))

    def asked(self, link: PeerLink, request: bytes, answer: Callable[[bytes], None]) -> None:
        """Another node wants us to know a version of the definitions, and to have outbox messages if it sends some.

        Or it has a question or a call, or a reply for a client of ours.
        """
        head, _, wire = request.partition(b"\n")
        asked = unpacked(head)
        question = self.questions.get(str(asked.get("question")))
        if question is not None:
            answer(json.dumps(question()).encode())
            return
        if "errand" in asked:
            self.call_handlers.run(asked, answer)
            return
        if "reply" in asked:
            answer(b"" if hand_over(self.hub, asked, wire) else b"lost")
            return
        if "version" not in asked:
            raise InvalidArgument(f"node '{link.peer}' asks for what this one does not know: is it of another version?")
        batch = decode(asked, wire) if "letters" in asked else None

        def told(is_known: bool) -> None:
            if not is_known:
                answer(b"no catalog within reach")
            elif batch is not None:
                self._bring(str(asked.get("shard")), batch, answer)
            else:
                answer(self.catalog.reader.encode() if "reader" in asked else b"")

        if self._propagation.knows(int(asked["version"]), told):
            told(True)

    def _replies_on(self, node: str) -> RemoteReplies | None:
        """Who takes the replies for clients of another node."""
        return RemoteReplies(self.links[node]) if node in self.links else None

    # Definitions

    async def decide(self, verb: Verb) -> Any:
        """Run a verb for the whole cluster; return when no node answers by what was before."""
        result = await self.catalog.change(verb)
        await self._propagation.wait_until_applied(self.catalog.version, self.announce)
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

    def _ask(self, link: PeerLink, request: bytes) -> asyncio.Future[bytes | None]:
        """What another node answers; None when it is lost meanwhile."""
        answer: asyncio.Future[bytes | None] = self._loop.create_future()

        def answered(data: bytes | None) -> None:
            if not answer.done():
                answer.set_result(data)

        link.ask(request, answered)
        return answer

    def _follow(self, changes: list[Definition]) -> None:
        self._directory.follow(changes)
        for shard in self.shards.values():
            shard.follow(changes, self.catalog.replica)

    def _resync(self, changes: list[Definition]) -> None:
        """The definitions went to another place of their log, which may be one before this."""
        self._directory.follow(changes)
        self._propagation.resync()
        for shard in self.shards.values():
            shard.resync(changes, self.catalog.replica)

    def _know(self, change: Definition) -> None:
        """A change was made on another node, or taken back: the parts that let clients in have to know."""
        self.hub.access.follow(change.kind, change.definition, change.removed)
