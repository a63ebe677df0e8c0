"""Connections beyond a budget: strangers make room, health checks are answered, and every slot is given back."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from leveret.protocols.http import server
from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Answered, Response
from leveret.protocols.net.admission import ConnectionBudget
from leveret.security.tls import Certificates, ServerTls
from tests.protocols.http.world import Client, World
from tests.server.certificates import Authority

LOGIN = "Authorization: yes"


def guarded(request: Request) -> Answered:
    """A handler that has open paths, and others for clients that authenticate."""
    if request.raw_path == b"/late":
        return late(request)
    if b"authorization" in request.headers:
        request.peer.authenticated()
    return Response(200, request.raw_path)


async def late(request: Request) -> Response:
    await asyncio.sleep(0)
    return Response(200, request.raw_path)


def is_health(request: Request) -> bool:
    return request.raw_path.startswith(b"/health/")


class Full(World):
    """A server whose budget is small."""

    def __init__(self, *limits: int, reserve_max: int = 0, **more: object) -> None:
        self.admission = ConnectionBudget(*limits, reserve_max=reserve_max)
        super().__init__(guarded, admission=self.admission, is_health=is_health, **more)  # type: ignore[arg-type]

    def users(self, count: int) -> list[Client]:
        """Clients that have authenticated."""
        users = []
        for _ in range(count):
            users.append(self.connect())
            assert users[-1].request("GET /", LOGIN).status == 200
        return users


@pytest.mark.parametrize("limits", [(100, 3, 100), (3, 100, 100)])
def test_connections_are_limited_and_slots_are_given_back(limits: tuple[int, int, int]) -> None:
    with Full(*limits) as world:
        users = world.users(3)
        assert world.connect().is_closed()
        users[0].close()
        world.until(lambda: world.admission.connections < 3)
        assert world.connect().request("GET /").status == 200


def test_a_connection_that_asks_open_paths_only_makes_room_for_others() -> None:
    with Full(100, 100, 2) as world:
        users = world.users(3)
        strangers = [world.connect() for _ in range(2)]
        for each in strangers:
            assert [each.request(f"GET {path}").status for path in ("/", "/late")] == [200, 200]
        newest = world.connect()
        assert newest.request("GET /").status == 200
        assert strangers[0].is_closed()
        assert [each.request("GET /").status for each in (*users, strangers[1], newest)] == [200] * 5
        assert (world.admission.connections, world.admission.half_open) == (5, 2)


def test_health_is_answered_beyond_the_budget_and_nothing_else() -> None:
    with Full(2, 100, 100, reserve_max=2) as world:
        users = world.users(2)
        for _ in range(5):
            probe = world.connect().request("GET /health/live")
            assert (probe.status, probe.headers["connection"]) == (200, "close")
            other = world.connect()
            refused = other.request("GET /", LOGIN)
            assert (refused.status, refused.headers["connection"]) == (503, "close")
            assert (refused.headers["retry-after"], other.is_closed()) == ("1", True)
        pipelined = world.connect()
        pipelined.send(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert pipelined.answer().status == 200
        assert pipelined.is_closed()
        world.until(lambda: world.admission.reserved == 0)
        assert [each.request("GET /").status for each in users] == [200, 200]


def test_a_silent_connection_does_not_keep_the_reserve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "DEADLINE_S", 0.0)
    with Full(1, 100, 100, reserve_max=5) as world:
        world.users(1)
        assert world.connect().is_closed()
        world.until(lambda: world.admission.reserved == 0)


def test_the_reserve_is_taken_over_by_newer_probes() -> None:
    with Full(1, 100, 100, reserve_max=3) as world:
        world.users(1)
        silent = [world.connect() for _ in range(10)]
        assert world.connect().request("GET /health/live").status == 200
        assert silent[0].is_closed()


def test_slots_of_connections_that_are_evicted_in_their_tls_handshake_are_given_back(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("localhost")
    certificates = Certificates(str(identity.cert), str(identity.key))
    context = ssl.create_default_context(cafile=str(authority.cert))
    context.check_hostname = False
    with Full(100, 100, 3, tls=ServerTls(certificates), limits=HttpLimits(handshake_s=60)) as world:
        silent = [world.connect() for _ in range(5)]
        for each in silent[2:]:
            each.send(b"\x16\x03\x01\x02\x00\x01")  # the beginning of a ClientHello
        plain = world.connect()
        plain.send(b"GET / HTTP/1.1\r\n\r\n")  # the handshake fails
        user = world.connect(context)
        assert user.request("GET /", LOGIN).status == 200
        assert all(each.is_closed() for each in silent[:3])
        for each in (*silent, plain):
            each.close()
        world.until(lambda: (world.admission.connections, world.admission.half_open) == (1, 0))
        assert len(world.server) == 1


def test_an_idle_connection_is_closed_when_no_file_descriptor_is_left() -> None:
    with Full(100, 100, 100) as world:
        users = world.users(2)
        world.connect()
        world.until(lambda: world.admission.half_open == 1)

        async def make_room() -> list[bool]:
            return [world.admission.make_room() for _ in range(4)]

        assert asyncio.run_coroutine_threadsafe(make_room(), world.loop).result() == [True, True, True, False]
        assert all(each.is_closed() for each in users)
        world.until(lambda: len(world.server) == 0)
        assert world.admission.connections == 0


def test_a_client_that_resets_while_it_is_accepted_leaves_nothing() -> None:
    with Full(100, 100, 100) as world:
        for _ in range(20):
            client = world.connect()
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            client.close()
        world.until(lambda: (world.admission.connections, len(world.server)) == (0, 0))
