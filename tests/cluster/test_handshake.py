"""What nodes of one cluster need to be linked, and what strangers try: relays, reflections, replays, other versions."""

import asyncio
import json
from collections.abc import Callable

import pytest

from leveret.cluster.rpc import wire
from leveret.cluster.rpc.link import PeerLink
from leveret.cluster.rpc.wire import PROOF_BYTES, FrameKind, LinkFrame
from tests.cluster.wires import Side, hello, hello_of, is_proof

OLD, NEW, OTHER = (name * 32 for name in (b"o", b"n", b"x"))


def encoded(messages: list[LinkFrame]) -> bytes:
    return b"".join(wire.encode(*message) for message in messages)


def met(
    caller: Side, acceptor: Side, between: Callable[[LinkFrame], LinkFrame] = lambda message: message
) -> list[LinkFrame]:
    """Let one node call another; gives all that was said. `between` changes messages on their way."""
    links = caller.link(acceptor.name), acceptor.link()
    heard: list[LinkFrame] = []
    while caller.sent or acceptor.sent:
        for side, link in ((caller, links[1]), (acceptor, links[0])):
            said = [between(message) for message in side.said()]
            heard += said
            link.data_received(encoded(said))
    ups = caller.is_up, acceptor.is_up
    for link in links:
        link.connection_lost(None)
    caller.is_up, acceptor.is_up = ups
    return heard


def strangely(play: Callable[[], None]) -> None:
    """Play a scene in a loop."""

    async def scene() -> None:
        play()

    asyncio.run(scene())


# Nodes


@pytest.mark.parametrize(
    ("callers", "acceptors", "is_linked"),
    [
        ((OLD,), (OLD,), True),
        ((NEW, OLD), (OLD,), True),
        ((OLD,), (NEW, OLD), True),
        ((NEW, OLD), (NEW, OLD), True),
        ((NEW,), (NEW, OLD), True),
        ((NEW, OLD), (NEW,), True),
        ((OLD,), (NEW,), False),
        ((NEW,), (OLD,), False),
        ((OTHER,), (NEW, OLD), False),
        ((), (), False),
        ((), (OLD,), False),
        ((OLD,), (), False),
    ],
)
def test_nodes_that_share_a_secret_are_linked(
    callers: tuple[bytes, ...], acceptors: tuple[bytes, ...], is_linked: bool
) -> None:
    def play() -> None:
        one, two = Side("a", keys=callers), Side("b", keys=acceptors)
        met(one, two)
        assert (one.is_up, two.is_up) == (is_linked, is_linked)
        assert one.hung_up is two.hung_up is not is_linked

    strangely(play)


def test_longest_names_fit_into_a_hello() -> None:
    def play() -> None:
        one, two = (Side('"' * 254 + name, cluster="\\" * 255) for name in "ab")
        met(one, two)
        assert one.is_up
        assert two.is_up

    strangely(play)


def test_two_nodes_of_one_name_are_not_linked() -> None:
    def play() -> None:
        one, two = Side("b"), Side("b")
        heard = met(one, two)
        assert not one.is_up
        assert not two.is_up
        assert not is_proof(heard)

    strangely(play)


def test_nodes_of_different_clusters_are_not_linked() -> None:
    def play() -> None:
        one, two = Side("a", "shop"), Side("b", "store")
        heard = met(one, two)
        assert not one.is_up
        assert not two.is_up
        assert not is_proof(heard)

    strangely(play)


def test_a_refused_caller_is_told_why_and_tells_its_operator() -> None:
    def play() -> None:
        caller, acceptor = Side("a", keys=(OLD,)), Side("b", keys=(NEW,))
        link, other = caller.link("b"), acceptor.link()
        for _ in range(3):
            other.data_received(encoded(caller.said()))
            link.data_received(encoded(acceptor.said()))
        assert link.why_down.startswith(
            "node 'b' refuses this one: node 'a' does not prove that it knows the cluster_s"
        )
        for each in (link, other):
            each.connection_lost(None)

    strangely(play)


# Strangers


def test_a_stranger_cannot_relay_one_node_to_another() -> None:
    """It connects to both, tells each the nonce of the other one, and brings each what the other one proves."""

    def play() -> None:
        a, b = Side("a"), Side("b")
        links = {"a": a.link(), "b": b.link()}
        links["a"].data_received(hello(node="b", to="a"))
        nonce_a = hello_of(a.said())["nonce"]
        links["b"].data_received(hello(nonce=nonce_a))
        learnt = [*a.said(), *b.said()]
        for message in [each for each in learnt if each.kind is FrameKind.PROOF]:
            for link in links.values():
                link.data_received(wire.encode(*message))
        assert not a.is_up
        assert not b.is_up
        assert not is_proof(learnt)
        for link in links.values():
            link.connection_lost(None)

    strangely(play)


def test_a_stranger_learns_nothing_about_the_secret_before_it_proves_that_it_knows_it() -> None:
    def play() -> None:
        b = Side("b")
        link = b.link()
        assert b.said() == []
        link.data_received(hello())
        assert [message.kind for message in b.said()] == [FrameKind.HELLO]
        link.data_received(wire.encode(FrameKind.PROOF, 0, bytes(PROOF_BYTES)))
        assert [message.kind for message in b.said()] == [FrameKind.CLOSE]
        assert b.hung_up
        assert not b.is_up
        link.connection_lost(None)

    strangely(play)


def test_a_proof_is_not_accepted_from_the_one_it_was_made_for() -> None:
    """A stranger that a node calls sends its proof back, as acceptor and in a link of its own as caller."""

    def play() -> None:
        a, called = Side("a"), Side("a")
        calling, accepting = a.link("b"), called.link()
        told = hello_of(a.said())
        calling.data_received(hello(role="acceptor", node="b", to="a", nonce=told["nonce"][::-1]))
        proof = next(message for message in a.said() if message.kind is FrameKind.PROOF)
        calling.data_received(wire.encode(*proof))
        assert not a.is_up
        accepting.data_received(hello(node="b", to="a", nonce=told["nonce"]))
        accepting.data_received(wire.encode(*proof))
        assert not called.is_up
        for link in (calling, accepting):
            link.connection_lost(None)

    strangely(play)


def test_a_node_does_not_talk_to_itself() -> None:
    def play() -> None:
        a, mirror = Side("a"), Side("b")
        calling, reflected = a.link("a"), mirror.link("b")
        calling.data_received(encoded(a.said()))
        reflected.data_received(encoded(mirror.said()))
        for side, link in ((a, calling), (mirror, reflected)):
            assert side.hung_up
            assert not side.is_up
            assert not is_proof(side.said())
            link.connection_lost(None)

    strangely(play)


def test_the_proof_of_an_acceptor_is_none_of_a_caller() -> None:
    """Roles are swapped: what 'b' proves when it is called does not let a stranger call 'a' as 'b'."""

    def play() -> None:
        a, b = Side("a"), Side("b")
        proofs = [message for message in met(a, b) if message.kind is FrameKind.PROOF]
        assert len(proofs) == 2
        for name, target in (("a", "b"), ("b", "a")):
            victim = Side(target)
            link = victim.link()
            link.data_received(hello(node=name, to=target))
            for proof in proofs:
                link.data_received(wire.encode(*proof))
            assert not victim.is_up
            link.connection_lost(None)

    strangely(play)


def test_a_recorded_handshake_is_of_no_use() -> None:
    def play() -> None:
        a, b = Side("a"), Side("b")
        heard: dict[str, list[LinkFrame]] = {"a": [], "b": []}
        calling, accepting = a.link("b"), b.link()
        for _ in range(3):
            for side, link in ((a, accepting), (b, calling)):
                said = side.said()
                heard[side.name] += said
                link.data_received(encoded(said))
        assert a.is_up
        assert b.is_up
        again, once_more = Side("b"), Side("a")
        links = again.link(), once_more.link("b")
        links[0].data_received(encoded(heard["a"]))
        links[1].data_received(encoded(heard["b"]))
        assert not again.is_up
        assert not once_more.is_up
        for link in (calling, accepting, *links):
            link.connection_lost(None)

    strangely(play)


@pytest.mark.parametrize("name", ["version", "cluster", "role", "node", "to", "nonce", "more"])
@pytest.mark.parametrize("role", ["caller", "acceptor"])
def test_every_word_of_a_hello_is_proven(name: str, role: str) -> None:
    changes: dict[str, object] = {"version": [wire.VERSION[0], 99], "nonce": "1" * 64}

    def between(message: LinkFrame) -> LinkFrame:
        if message.kind is not FrameKind.HELLO:
            return message
        told = json.loads(message.payload)
        if told["role"] != role:
            return message
        told[name] = changes.get(name, "x")
        return message._replace(payload=json.dumps(told).encode())

    def play() -> None:
        one, two = Side("a"), Side("b")
        met(one, two, between)
        assert not one.is_up
        assert not two.is_up

    strangely(play)


@pytest.mark.parametrize("kind", [kind for kind in FrameKind if kind not in (FrameKind.HELLO, FrameKind.PROOF)])
@pytest.mark.parametrize("greeted", [False, True])
def test_nothing_is_done_for_a_node_before_it_is_authenticated(kind: FrameKind, greeted: bool) -> None:
    def play() -> None:
        for side, link, first in calls_and_accepts():
            if greeted:
                link.data_received(first)
            said = b'{"shard": "0", "errand": "move", "question": "version", "known": "x"}'
            link.data_received(wire.encode(kind, 2, said))
            assert side.hung_up
            assert side.requests == []
            assert not side.is_up
            link.connection_lost(None)

    strangely(play)


def calls_and_accepts() -> list[tuple[Side, PeerLink, bytes]]:
    """Both ends of a link at its beginning, each with the HELLO that it waits for."""
    b, a = Side("b"), Side("a")
    answer = hello(role="acceptor", node="b", to="a")
    return [(b, b.link(), hello()), (a, a.link("b"), answer)]


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"[]",
        b"[" * 2_000,
        b'{"node":' * 250,
        b"{}",
        b'{"node": 7}',
        b'{"node": ""}',
        b'{"node": "a\\nb"}',
        b'{"node": "\xff"}',
        b'{"node": "\\ud800"}',
        b'{"node": "' + b"a" * 256 + b'"}',
        b'{"node": "a"}',
        b'{"node": "a", "version": [3]}',
        b'{"node": "a", "version": [3, 0], "cluster": {}}',
        hello(nonce=None)[9:],
        hello(nonce="0" * 63)[9:],
        hello(nonce=["0"] * 64)[9:],
        hello(to=["b"])[9:],
        hello(role="acceptor")[9:],
    ],
)
def test_a_hello_that_is_none_is_refused(payload: bytes) -> None:
    def play() -> None:
        b = Side("b")
        link = b.link()
        link.data_received(wire.encode(FrameKind.HELLO, 0, payload))
        assert b.hung_up
        assert not is_proof(b.said())
        link.connection_lost(None)

    strangely(play)


def test_a_hello_that_is_too_long_is_refused_before_it_is_here() -> None:
    def play() -> None:
        b = Side("b")
        link = b.link()
        link.data_received(wire.encode(FrameKind.HELLO, 0, bytes(wire.STRANGER_BYTES_MAX + 1))[:9])
        assert b.hung_up
        link.connection_lost(None)

    strangely(play)


@pytest.mark.parametrize(("before", "is_linked"), [(0, True), (1, True), (2, False), (60, False)])
def test_proofs_are_one_or_two(before: int, is_linked: bool) -> None:
    def between(message: LinkFrame) -> LinkFrame:
        said = message.payload
        return message if message.kind is not FrameKind.PROOF else message._replace(payload=bytes(32) * before + said)

    def play() -> None:
        a, b = Side("a"), Side("b")
        met(a, b, between)
        assert b.is_up == is_linked

    strangely(play)


def test_what_a_stranger_gives_as_its_reason_is_cut_and_made_readable() -> None:
    def play() -> None:
        a = Side("a")
        link = a.link("b")
        link.data_received(wire.encode(FrameKind.CLOSE, 0, b"a\n\x1b[2J\xff" + b"z" * 2_000))
        assert link.why_down.startswith("node 'b' refuses this one: a??[2J")
        assert len(link.why_down) < 250
        assert [message.kind for message in a.said()] == [FrameKind.HELLO]
        link.connection_lost(None)

    strangely(play)


# Other versions


def test_a_caller_of_version_2_is_refused_in_words_that_it_understands() -> None:
    def play() -> None:
        b = Side("b")
        link = b.link()
        told = {"node": "a", "cluster": "test", "nonce": "00" * 16, "version": [2, 0]}
        link.data_received(wire.encode(FrameKind.HELLO, 0, json.dumps(told).encode()))
        said = b.said()
        assert [message.kind for message in said] == [FrameKind.HELLO, FrameKind.CLOSE]
        answer = hello_of(said)
        assert (answer["node"], answer["cluster"], answer["version"]) == ("b", "test", list(wire.VERSION))
        assert bytes.fromhex(answer["nonce"])
        assert "stop all nodes of the earlier release" in link.why_down
        link.connection_lost(None)

    strangely(play)


def test_an_acceptor_of_version_2_is_refused_and_gets_no_proof() -> None:
    def play() -> None:
        a = Side("a")
        link = a.link("b")
        told = {"node": "b", "cluster": "test", "nonce": "00" * 16, "version": [2, 0]}
        link.data_received(wire.encode(FrameKind.HELLO, 0, json.dumps(told).encode()))
        assert "speaks version [2, 0] between nodes" in link.why_down
        assert not is_proof(a.said())
        assert a.hung_up
        link.connection_lost(None)

    strangely(play)
