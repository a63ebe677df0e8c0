"""Links under TLS: both ends show a certificate of one authority, the caller checks the name, and no relay works."""

import asyncio
import datetime
import shutil
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from leveret.cluster.coordination.keys import ClusterMembership, EtcdKeys
from leveret.cluster.rpc.link import PeerLink
from leveret.cluster.rpc.peers import Peers
from leveret.security.der import BadCertificate
from leveret.security.tls import MutualTls
from tests.cluster.peer import Peer
from tests.server.certificates import Authority, Identity
from tests.waiting import PATIENCE_S

HOUR = datetime.timedelta(hours=1)


async def linked(accepting: ssl.SSLContext, calling: ssl.SSLContext | None, host: str = "127.0.0.1") -> bytes | None:
    """Call a node; the certificate that the caller was shown, or None when the two do not get a link."""
    loop = asyncio.get_running_loop()
    one, two = Peer("a"), Peer("b")
    server = await loop.create_server(lambda: PeerLink(two, None), "127.0.0.1", 0, ssl=accepting)
    port = server.sockets[0].getsockname()[1]
    called: PeerLink | None = None
    gone = asyncio.Event()

    class Calling(PeerLink):
        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            gone.set()

    try:
        transport, called = await loop.create_connection(lambda: Calling(one, two.name), host, port, ssl=calling)
        ends = [asyncio.create_task(gone.wait()), asyncio.create_task(one.is_up.wait())]
        await asyncio.wait(ends, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
        if not one.is_up.is_set():
            return None
        await asyncio.wait_for(two.is_up.wait(), PATIENCE_S)
        shown: bytes = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return shown
    except OSError:
        return None
    finally:
        if called is not None:
            called.close()
        server.close()
        await server.wait_closed()


def tls_of(identity: Identity, authority: Authority) -> MutualTls:
    return MutualTls(str(identity.cert), str(identity.key), str(authority.cert))


def shown_by(identity: Identity) -> bytes:
    """The certificate of an identity as it is shown."""
    return ssl.PEM_cert_to_DER_cert(identity.cert.read_text())


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def strangers(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "Another Authority")


def test_two_nodes_of_one_authority_are_linked(authority: Authority) -> None:
    identity = authority.issue(None, ("node-b",), "b")
    a, b = tls_of(authority.issue(None, file="a"), authority), tls_of(identity, authority)
    assert asyncio.run(linked(b.accepting, a.calling)) == shown_by(identity)


def test_a_caller_without_a_certificate_of_the_authority_is_refused(authority: Authority, strangers: Authority) -> None:
    b = tls_of(authority.issue(None, file="b"), authority)
    nobody = ssl.create_default_context(cafile=str(authority.cert))
    stranger = tls_of(strangers.issue(None, file="s"), authority)
    for calling in (None, nobody, stranger.calling):
        assert asyncio.run(linked(b.accepting, calling)) is None


def test_a_caller_refuses_whoever_is_not_whom_he_called(authority: Authority, strangers: Authority) -> None:
    a = tls_of(authority.issue(None, file="a"), authority)
    other_name = tls_of(authority.issue(None, ("node-b",), "b"), authority)
    assert asyncio.run(linked(other_name.accepting, a.calling, "localhost")) is None
    stranger = strangers.issue(None, ("localhost",), "s")
    impostor = MutualTls(str(stranger.cert), str(stranger.key), str(authority.cert))
    assert asyncio.run(linked(impostor.accepting, a.calling, "localhost")) is None


def test_a_renewed_certificate_is_shown_to_the_next_caller(authority: Authority) -> None:
    a = tls_of(authority.issue(None, file="a"), authority)
    first = authority.issue(None, file="b")
    b = tls_of(first, authority)
    renewed = authority.issue(None, file="renewed")
    shutil.copy(renewed.cert, first.cert)
    with pytest.raises(BadCertificate):
        b.reload()  # the key is still the old one
    shutil.copy(renewed.key, first.key)
    b.reload()
    assert asyncio.run(linked(b.accepting, a.calling)) == shown_by(renewed)


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_nodes_are_linked_by_tls_1_3_in_every_loop(
    authority: Authority, loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    a, b = (tls_of(authority.issue(None, file=name), authority) for name in "ab")
    with asyncio.Runner(loop_factory=loop) as runner:
        assert runner.run(linked(b.accepting, a.calling)) is not None


@pytest.mark.parametrize("end", ["caller", "acceptor"])
def test_an_earlier_tls_is_refused(authority: Authority, end: str) -> None:
    a, b = (tls_of(authority.issue(None, file=name), authority) for name in "ab")
    context = a.calling if end == "caller" else b.accepting
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    assert asyncio.run(linked(b.accepting, a.calling)) is None
    for each in (a.calling, b.accepting):  # without a limit of TLS itself, the handshake of nodes has one
        each.minimum_version = each.maximum_version = ssl.TLSVersion.TLSv1_2
    assert asyncio.run(linked(b.accepting, a.calling)) is None


class Relay(asyncio.Protocol):
    """One side of an attacker that ends TLS between two nodes, and passes on what they say."""

    def __init__(self, others: dict[str, asyncio.Transport], name: str, early: list[bytes]) -> None:
        self._others = others
        self._name = name
        self._early = early
        self._ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._others[self._name] = transport

    def data_received(self, data: bytes) -> None:
        other = self._others.get("acceptor" if self._name == "caller" else "caller")
        if other is None:
            self._early.append(data)
        else:
            other.write(data)


async def relayed(accepting: ssl.SSLContext | None, calling: ssl.SSLContext | None, attacker: MutualTls | None) -> bool:
    """Whether two nodes are linked through an attacker, with certificates of its own if there is TLS."""
    loop = asyncio.get_running_loop()
    one, two = Peer("a"), Peer("b")
    server = await loop.create_server(lambda: PeerLink(two, None), "127.0.0.1", 0, ssl=accepting)
    target = server.sockets[0].getsockname()
    ends: dict[str, asyncio.Transport] = {}
    early: list[bytes] = []
    tls = (None, None) if attacker is None else (attacker.accepting, attacker.calling)
    middle = await loop.create_server(lambda: Relay(ends, "caller", early), "127.0.0.1", 0, ssl=tls[0])
    await loop.create_connection(lambda: Relay(ends, "acceptor", early), *target, ssl=tls[1])
    address = middle.sockets[0].getsockname()
    transport, link = await loop.create_connection(lambda: PeerLink(one, "b"), *address, ssl=calling)
    is_linked = await asyncio.wait_for(link.introduced(), PATIENCE_S)
    for each in (transport, *ends.values()):
        each.abort()
    for listening in (server, middle):
        listening.close()
        await listening.wait_closed()
    return is_linked and two.is_up.is_set()


def test_a_relay_with_certificates_of_the_authority_gets_nowhere(authority: Authority) -> None:
    """Also if it has stolen the certificate and the key that all nodes share."""
    shared = tls_of(authority.issue(None, file="shared"), authority)
    own = tls_of(authority.issue(None, file="own"), authority)
    for attacker in (own, shared):
        assert not asyncio.run(relayed(shared.accepting, shared.calling, attacker))
    # The relay itself works: where nothing binds the handshake to its connection, nodes are linked through it.
    assert asyncio.run(relayed(None, None, None))


def test_a_node_whose_certificate_is_revoked_is_refused_on_both_sides(authority: Authority) -> None:
    one, two = authority.issue(None, file="a"), authority.issue(None, file="b")
    crl = str(authority.revoke(age=3 * HOUR))
    a, b = (MutualTls(str(each.cert), str(each.key), str(authority.cert), crl) for each in (one, two))
    assert asyncio.run(linked(b.accepting, a.calling)) == shown_by(two)
    authority.revoke([two], age=2 * HOUR)
    for each in (a, b):
        each.reload()
    assert asyncio.run(linked(b.accepting, a.calling)) is None  # the caller sees that it called a revoked node
    assert asyncio.run(linked(a.accepting, b.calling)) is None  # a revoked node calls
    authority.revoke([one])
    for each in (a, b):
        each.reload()
    assert asyncio.run(linked(a.accepting, b.calling)) is None


def test_no_session_of_a_link_can_be_resumed(authority: Authority) -> None:
    """It would have no certificate checked."""
    a, b = (tls_of(authority.issue(None, file=name), authority) for name in "ab")
    assert a.accepting.num_tickets == 0
    assert a.accepting.minimum_version == ssl.TLSVersion.TLSv1_3
    assert asyncio.run(linked(b.accepting, a.calling)) is not None


def test_links_to_a_revoked_node_are_closed(authority: Authority) -> None:
    one, two = authority.issue(None, file="a"), authority.issue(None, file="b")
    crl = str(authority.revoke(age=2 * HOUR))
    a, b = (MutualTls(str(each.cert), str(each.key), str(authority.cert), crl) for each in (one, two))

    async def scene() -> None:
        loop, ours, theirs = asyncio.get_running_loop(), Peer("a"), Peer("b")
        accepted: list[PeerLink] = []

        def link(calls: str | None) -> PeerLink:
            accepted.append(PeerLink(theirs, calls))
            return accepted[-1]

        called = Peers("b", ClusterMembership(EtcdKeys("test"), 1), link)
        called.tls = b
        port = called.listen("127.0.0.1", 0)
        await loop.create_connection(lambda: PeerLink(ours, "b"), "127.0.0.1", port, ssl=a.calling)
        for end in (ours, theirs):
            await asyncio.wait_for(end.is_up.wait(), PATIENCE_S)
        called.up(accepted[0])
        called.close_revoked()
        assert not theirs.is_down.is_set()
        authority.revoke([one])
        b.reload()
        called.close_revoked()
        for end in (ours, theirs):
            await asyncio.wait_for(end.is_down.wait(), PATIENCE_S)
        called.hang_up()

    asyncio.run(scene())
