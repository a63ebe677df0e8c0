"""Links under TLS: both ends show a certificate of one authority, and the caller checks whom he has called."""

import asyncio
import shutil
import ssl
from pathlib import Path

import pytest

from leveret.node import neighbours
from leveret.node.link import Link
from leveret.node.neighbours import Neighbours
from leveret.security.mutual_tls import MutualTls
from leveret.security.tls import BadCertificate
from tests.node.peer import Peer
from tests.server.certificates import Authority, Identity
from tests.waiting import PATIENCE_S


class Nobody:
    """The other nodes, of which there are none."""

    def owner_of(self, home: str) -> str | None:
        return None

    def address_of(self, node: str) -> tuple[str, int] | None:
        return None

    def nodes(self) -> list[str]:
        return []


async def linked(accepting: ssl.SSLContext, calling: ssl.SSLContext | None, host: str = "127.0.0.1") -> bytes | None:
    """Call a node; the certificate that the caller was shown, or None when the two do not get a link."""
    loop = asyncio.get_running_loop()
    one, two = Peer("a"), Peer("b")
    server = await loop.create_server(lambda: Link(two, None), "127.0.0.1", 0, ssl=accepting)
    port = server.sockets[0].getsockname()[1]
    called: Link | None = None
    gone = asyncio.Event()

    class Calling(Link):
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


def test_callers_who_do_not_speak_tls_are_not_at_the_door_for_ever(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "STRANGERS_MAX", 2)
    a, b = (tls_of(authority.issue(None, file=name), authority) for name in "ab")

    async def scene() -> None:
        one, two = Peer("a"), Peer("b")
        called = Neighbours("b", Nobody(), lambda calls: Link(two, calls))
        called.tls = b
        port = await called.listen("127.0.0.1", 0)
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /health HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()
            await writer.wait_closed()
        monkeypatch.setattr(neighbours, "HANDSHAKE_S", 0)  # that time has passed
        loop = asyncio.get_running_loop()
        _, link = await loop.create_connection(lambda: Link(one, "b"), "127.0.0.1", port, ssl=a.calling)
        for end in (one, two):
            await asyncio.wait_for(end.is_up.wait(), PATIENCE_S)
        link.close()
        called.hang_up()
        for end in (one, two):
            await asyncio.wait_for(end.is_down.wait(), PATIENCE_S)

    asyncio.run(scene())
