"""A node in memory and the port for its peers, for bytes that are no handshake, or those of a peer gone mad.

No exception leaves a link. What it says can be read. Before the handshake is done the node is asked for nothing, a
link never comes up, and an acceptor says nothing that depends on the secret. A link that has hung up says nothing more.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

from leveret.cluster.forwarding.handler import Api, no_apis
from leveret.cluster.forwarding.request import request_head
from leveret.cluster.proxy.connection import ProxyCaller
from leveret.cluster.proxy.sessions import told
from leveret.cluster.rpc import wire
from leveret.cluster.rpc.link import PeerLink
from leveret.cluster.rpc.wire import FrameKind, LinkFrame
from leveret.protocols.amqp.connection import AmqpPeer
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import HttpPeer as RequestPeer
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from leveret.security.identity import Identity
from leveret.security.passwords import hash_password
from tests.cluster.cluster import SHARDS, Cluster, OneNode, Served
from tests.cluster.coordination.memory_log import MemoryLog
from tests.cluster.wires import Side, hello
from tests.fuzz.arena import LOGGER, Complaints
from tests.protocols.amqp.client import CHEAP

FED_BYTES_MAX = 65_536
READS_BYTES = (65_536, 1, 7, 100, 2_057)
HEAD_BYTES = 9
HOME = "0"
EDGE = "echo"
IDENTITY = Identity("guest", frozenset(["administrator"]))


def client() -> dict[str, Any]:
    """A client of AMQP as another node tells of it."""
    caller = ProxyCaller(AmqpPeer("127.0.0.1", 40_000), IDENTITY, "/", {}, ("127.0.0.1", 5_672), "a")
    return {"shard": HOME, **told(caller)}


def request() -> dict[str, Any]:
    """A request of HTTP as another node forwards it."""
    made = Request("GET", b"/queues/q", {b"host": b"a"}, RequestPeer("127.0.0.1", 40_000))
    made.identity, made.body = IDENTITY, b"{}"
    return {"edge": EDGE, **request_head(made)}


class Tested(Side):
    """A node whose work is done by a real one, and the transport of its link."""

    def __init__(self, name: str, real: Any) -> None:
        super().__init__(name)
        self._real = real

    def up(self, link: PeerLink) -> None:
        super().up(link)
        self._real.up(link)

    def down(self, link: PeerLink) -> None:
        super().down(link)
        self._real.down(link)

    def opened(self, link: PeerLink, number: int, request: dict[str, Any]) -> Any:
        self.requests.append(request)
        return self._real.opened(link, number, request)

    def asked(self, link: PeerLink, request: bytes, answer: Callable[[bytes], None]) -> None:
        self.requests.append(request)
        self._real.asked(link, request, answer)


class PeerArena:
    """A node with one shard, and links to it; in a loop that stands still between inputs."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._member = self._loop.run_until_complete(self._made())

    async def _made(self) -> OneNode:
        cluster = Cluster.__new__(Cluster)  # without its thread: nothing listens, nobody is called
        cluster.log, cluster.addresses, cluster.owners = MemoryLog(), {}, {str(each): "b" for each in range(SHARDS)}
        member = OneNode("b", cluster, no_apis)
        access = member.proxies.access
        await member.catalog.renew_lease()
        await member.catalog.change(lambda core: access.add_default_user("guest", hash_password("guest", CHEAP)))
        member.serve(HOME, Served(access))
        member.node.edges[EDGE] = Api(lambda request: Response(200, request.body), problem)
        return member

    def close(self) -> None:
        """Let go of the node."""
        self._loop.run_until_complete(self._member.stop())
        self._loop.close()

    def fight(self, data: bytes) -> None:
        """Start as the first byte says, and send the rest in reads as the second says."""
        self._loop.run_until_complete(self._fight(data))

    async def _fight(self, data: bytes) -> None:
        start, size = data[:1].ljust(1, b"\0")[0], data[1:2].ljust(1, b"\0")[0]
        step, rest = READS_BYTES[size % len(READS_BYTES)], data[2 : FED_BYTES_MAX + 2]
        complaints = Complaints(logging.ERROR)
        name = list(STARTS)[start % len(STARTS)]
        node, link, is_up = STARTS[name](Tested("b", self._member.node))
        if not is_up:
            LOGGER.addHandler(complaints)
        try:
            for position in range(0, len(rest), step):
                if node.hung_up:
                    break
                link.data_received(rest[position : position + step])
                if is_up:
                    await asyncio.sleep(0)
                check(node, link, is_up)
        finally:
            LOGGER.removeHandler(complaints)
            link.connection_lost(None)
            await asyncio.sleep(0)
        shard = self._member.node.shards[HOME]
        assert not shard.proxied_clients, "a client of a node that is gone"
        assert not self._member.node.forwarder._forwarded_handlers, "a request of a node that is gone"


def check(node: Tested, link: PeerLink, is_up: bool) -> None:
    """What must hold after each read."""
    said = node.said()
    if is_up:
        return
    assert not node.is_up, "a stranger is linked"
    assert not link.is_up
    assert node.requests == [], "the node works for a stranger"
    waiting = len(link._reader._buffer)
    assert node.hung_up or waiting <= wire.STRANGER_BYTES_MAX + HEAD_BYTES, "a stranger fills the memory"
    kinds = [message.kind for message in said]
    allowed = {FrameKind.HELLO, FrameKind.CLOSE, FrameKind.PROOF} if link._calls else {FrameKind.HELLO, FrameKind.CLOSE}
    assert set(kinds) <= allowed, kinds
    assert FrameKind.CLOSE not in kinds[:-1], "something is said after the refusal"


Started = tuple[Tested, PeerLink, bool]


def accepts(*first: bytes) -> Callable[[Tested], Started]:
    """A node that is called, by a stranger that has said something already."""

    def start(node: Tested) -> Started:
        link = node.link()
        for data in first:
            link.data_received(data)
        check(node, link, False)
        return node, link, False

    return start


def calls(*first: bytes) -> Callable[[Tested], Started]:
    """A node that has called a stranger."""

    def start(node: Tested) -> Started:
        link = node.link("c")
        for data in first:
            link.data_received(data)
        check(node, link, False)
        return node, link, False

    return start


def linked(calls: str | None, *first: bytes) -> Callable[[Tested], Started]:
    """A node that is linked to another one, which goes mad."""

    def start(node: Tested) -> Started:
        other = Side("a" if calls is None else calls)
        there, here = other.link(None if calls else node.name), node.link(calls)
        while not (other.is_up and node.is_up):
            here.data_received(b"".join(wire.encode(*message) for message in other.said()))
            there.data_received(b"".join(wire.encode(*message) for message in node.said()))
        there.connection_lost(None)
        for data in first:
            here.data_received(data)
        return node, here, True

    return start


def message(kind: FrameKind, number: int, payload: object) -> bytes:
    """The bytes of a message with JSON, or with bytes as they are."""
    return wire.encode(kind, number, payload if isinstance(payload, bytes) else json.dumps(payload).encode())


OPENED = message(FrameKind.OPEN, 3, client())
STARTS: dict[str, Callable[[Tested], Started]] = {
    "accepting": accepts(),
    "accepting, greeted": accepts(hello()),
    "calling": calls(),
    "calling, greeted": calls(hello(role="acceptor", node="c", to="b")),
    "linked": linked(None),
    "linked, called": linked("c"),
    "with a client": linked(None, OPENED),
}


def handshakes() -> Iterator[tuple[str, bytes]]:
    """Good handshakes of another time, and parts of them."""
    caller, acceptor = Side("a"), Side("b")
    heard: dict[str, list[LinkFrame]] = {"a": [], "b": []}

    async def meet() -> None:
        links = {"b": caller.link("b"), "a": acceptor.link()}
        while not (caller.is_up and acceptor.is_up):
            for side in (caller, acceptor):
                said = side.said()
                heard[side.name] += said
                links[side.name].data_received(b"".join(wire.encode(*each) for each in said))
        for link in links.values():
            link.connection_lost(None)

    asyncio.run(meet())
    for name, said in heard.items():
        yield f"what {name} said", b"".join(wire.encode(*each) for each in said)
        for number, each in enumerate(said):
            yield f"message {number} of {name}", wire.encode(*each)
            yield f"message {number} of {name}, twice", wire.encode(*each) * 2
    yield "the whole of it", b"".join(wire.encode(*each) for said in heard.values() for each in said)


def hellos() -> Iterator[tuple[str, bytes]]:
    """First messages that are wrong."""
    yield (
        "a HELLO of version 2",
        message(FrameKind.HELLO, 0, {"node": "a", "cluster": "test", "nonce": "00" * 16, "version": [2, 0]}),
    )
    wrong: dict[str, dict[str, object]] = {
        "of another cluster": {"cluster": "other"},
        "to another node": {"to": "z"},
        "of the node itself": {"node": "b"},
        "of an acceptor": {"role": "acceptor"},
        "of a later version": {"version": [99, 0]},
        "with a version of another kind": {"version": {"a": [1e308]}},
        "without a nonce": {"nonce": None},
        "with a name of 256 bytes": {"node": "a" * 256},
        "with a name that clears a screen": {"node": "a\x1b[2J\n"},
        "with a field of 1 KiB": {"more": "x" * 1_024},
    }
    for name, fields in wrong.items():
        yield f"a HELLO {name}", hello(**fields)
    for opening in (b"[", b'{"a":', b'[{"node":'):
        yield f"a HELLO of {opening!r}", message(FrameKind.HELLO, 0, opening * (2_000 // len(opening)))
    for size in (2_049, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0, 4):
        yield f"a message of {size:#x} bytes", size.to_bytes(4) + b"\1\0\0\0\0"
    for count in (0, 1, 2, 3, 60):
        yield f"{count} proofs", message(FrameKind.PROOF, 0, bytes(32) * count)
    yield "HTTP", b"GET / HTTP/1.1\r\nHost: b\r\n\r\n"
    yield "TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100)


def requests() -> Iterator[tuple[str, bytes]]:
    """What an authenticated node might say, and a stranger tries to."""
    for kind in FrameKind:
        yield f"an empty {kind.name}", message(kind, 3, b"")
        yield f"a {kind.name} that is no JSON", message(kind, 5, b"{")
        yield f"a deep {kind.name}", message(kind, 7, b"[" * 1_900)
    yield "a client", OPENED
    yield "a client twice", OPENED * 2
    yield "a client and its frames", OPENED + message(FrameKind.DATA, 3, b"\1\0\1\0\0\0\5\0\x14\0\x0a\0\xce")
    yield "a client and bytes", OPENED + message(FrameKind.DATA, 3, b"\xff" * 100) + message(FrameKind.CLOSE, 3, b"")
    for name in client():
        yield f"a client with a wrong {name}", message(FrameKind.OPEN, 3, {**client(), name: 7})
    body = message(FrameKind.DATA, 5, b"{}")
    yield "a request", message(FrameKind.OPEN, 5, request()) + body
    yield "a request twice", message(FrameKind.OPEN, 5, request()) * 2 + body + body
    yield "a request of a shard", message(FrameKind.OPEN, 5, {**request(), "shard": HOME}) + body
    yield "a request of 64 GiB", message(FrameKind.OPEN, 5, {**request(), "size": 1 << 36}) + body
    for name in request():
        yield f"a request with a wrong {name}", message(FrameKind.OPEN, 5, {**request(), name: -1})
    questions: tuple[object, ...] = (
        {"version": 0},
        {"version": "x"},
        {"question": "status"},
        {"errand": "move", "about": {}},
        {"errand": "nothing", "about": 1},
        {"reply": "x"},
        {"version": 0, "letters": 3, "shard": HOME},
        {"version": 0, "reader": True},
        [],
    )
    for asked in questions:
        yield f"a question {asked}", message(FrameKind.ASK, 9, asked)


CORPUS = {name: data for part in (handshakes, hellos, requests) for name, data in part()}
