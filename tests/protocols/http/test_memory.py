"""What requests and answers take in memory: counted as it comes, for all connections together, and let go of."""

import asyncio
import tracemalloc
from contextlib import suppress

import pytest

from leveret.protocols.http.connection import NO_MEMORY
from leveret.protocols.http.limits import Budget, HttpLimits
from leveret.protocols.http.reader import RequestReader
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Admitted, Response
from tests.protocols.http.world import Client, World

KIB = 1_024
POST = b"POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"


def begin(world: World, size: int, sent: int) -> Client:
    """A client that has sent some of a body."""
    client = world.connect()
    client.send(POST + b"Content-Length: %d\r\n\r\n" % size + b"x" * sent)
    return client


class Gate:
    """A handler whose answers wait."""

    def __init__(self) -> None:
        self.event: asyncio.Event | None = None
        self.seen: list[bytes] = []

    async def __call__(self, request: Request) -> Response:
        self.seen.append(request.raw_path)
        if self.event is None:
            self.event = asyncio.Event()
        await self.event.wait()
        return Response(200)


def test_unfinished_bodies_of_all_connections_count_together() -> None:
    with World(budget=Budget(1_000 * KIB)) as world:
        clients = [begin(world, 500 * KIB, 300 * KIB) for _ in range(3)]
        world.until(lambda: world.budget.request_bytes == 900 * KIB)
        answer = begin(world, 500 * KIB, 300 * KIB).answer()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert world.connect().request("POST /", body=b"small").status == 200
        world.until(lambda: world.budget.request_bytes == 900 * KIB)
        clients[0].close()
        world.until(lambda: world.budget.request_bytes == 600 * KIB)
        for client in clients[1:]:
            client.send(b"x" * 200 * KIB)
        assert [client.answer().status for client in clients[1:]] == [200, 200]
        world.until(lambda: world.budget.request_bytes == 0)


def test_servers_share_one_budget() -> None:
    budget = Budget(1_000 * KIB)
    with World(budget=budget) as one, World(budget=budget) as other:
        begin(one, 900 * KIB, 800 * KIB)
        one.until(lambda: budget.request_bytes == 800 * KIB)
        assert begin(other, 500 * KIB, 300 * KIB).answer().status == 503
        other.until(lambda: budget.request_bytes == 800 * KIB)
    assert budget.request_bytes == 0


def test_a_request_counts_until_it_is_answered() -> None:
    gate = Gate()
    with World(gate) as world:
        client = world.connect()
        client.send(POST + b"Content-Length: 5000\r\n\r\n" + b"x" * 5_000)
        world.until(lambda: world.budget.request_bytes > 5_000)
        assert gate.event is not None
        world.loop.call_soon_threadsafe(gate.event.set)
        assert client.answer().status == 200
        world.until(lambda: world.budget.request_bytes == 0)


def test_what_waits_behind_a_request_counts_too() -> None:
    gate = Gate()
    with World(gate) as world:
        client = world.connect()
        padding = b"X: " + b"x" * 2_000 + b"\r\n\r\n"
        client.send((b"GET / HTTP/1.1\r\nHost: x\r\n" + padding) * 3)
        world.until(lambda: world.budget.request_bytes > 6_000)
        client.send(b"GET / HTTP/1.1\r\nX: " + b"y" * 10_000)
        world.until(lambda: world.budget.request_bytes > 16_000)
        client.close()
        world.until(lambda: world.budget.request_bytes == 0)


def test_what_waits_is_refused_when_there_is_no_memory() -> None:
    gate = Gate()
    with World(gate, budget=Budget(50 * KIB)) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        world.until(lambda: bool(gate.seen))
        before = NO_MEMORY.count
        client.send(POST + b"Content-Length: 100000\r\n\r\n" + b"x" * 60_000)
        world.until(lambda: NO_MEMORY.count > before)
        assert world.budget.request_bytes < 2_000  # the rest was thrown away
        assert gate.event is not None
        world.loop.call_soon_threadsafe(gate.event.set)
        assert [client.answer().status for _ in range(2)] == [200, 503]
        assert client.is_closed()
        world.until(lambda: world.budget.request_bytes == 0)


@pytest.mark.parametrize("ending", ["refused", "lost", "too large", "late"])
def test_an_unfinished_body_is_let_go_of(ending: str) -> None:
    with World(limits=HttpLimits(body_bytes_max=600 * KIB)) as world:
        client = world.connect()
        client.send(CHUNKED + b"%x\r\n" % (500 * KIB) + b"x" * 400 * KIB)
        world.until(lambda: world.budget.request_bytes == 400 * KIB)
        if ending == "lost":
            client.close()
        elif ending == "late":
            world.server.limits = HttpLimits(body_s=0.01, body_s_max=0.02)
            assert client.answer().status == 408
        else:
            client.send(b"x" * 100 * KIB + {"refused": b"no end", "too large": b"\r\nffffff\r\n"}[ending])
            assert client.answer().status == {"refused": 400, "too large": 413}[ending]
        world.until(lambda: world.budget.request_bytes == 0)


def test_the_time_for_a_body_grows_with_it_and_has_an_end() -> None:
    limits = HttpLimits()
    assert limits.time_for_body(0) == 30
    assert limits.time_for_body(1 << 20) == 30 + (1 << 20) / 16_384
    assert limits.time_for_body(16 << 20) == limits.time_for_body(1 << 30) == 300


def test_a_body_that_comes_slowly_is_refused_however_much_has_come() -> None:
    with World() as world:
        client = begin(world, 500 * KIB, 400 * KIB)
        world.until(lambda: world.budget.request_bytes == 400 * KIB)
        world.server.limits = HttpLimits(body_s=0.01, body_bytes_per_s=1, body_s_max=0.05)
        assert client.answer().status == 408


def test_tiny_chunks_take_no_more_than_their_bytes() -> None:
    reader = RequestReader(HttpLimits(), HttpPeer("127.0.0.1", 1), lambda request, keep_alive: None)
    reader.feed(CHUNKED)
    part = b"2\r\nxy\r\n" * 1_000
    tracemalloc.start()
    try:
        for _ in range(200):
            reader.feed(part)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert reader.body_bytes == 400_000
    assert taken < 600_000


def test_a_client_that_does_not_read_is_closed_when_there_is_no_memory() -> None:
    body = b"x" * 8_000_000

    def stalled(world: World) -> Client:
        client, before = world.connect(), world.budget.unread_bytes
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        world.until(lambda: world.budget.unread_bytes > before)
        return client

    with World(lambda request: Response(200, body)) as world:
        first, second, third = stalled(world), stalled(world), world.connect()
        world.until(lambda: len(world.server) == 3)
        world.budget.unread_bytes_max = world.budget.unread_bytes
        third.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        world.until(lambda: len(world.server) == 2)
        with suppress(ConnectionResetError):
            assert len(first.answer().body) < len(body)  # it has not read for longest
        assert [client.answer().body for client in (second, third)] == [body, body]
        world.until(lambda: world.budget.unread_bytes == 0)


def test_answers_of_one_turn_do_not_pile_up() -> None:
    body = b"x" * 60_000
    with World(lambda request: Response(200, body)) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 200)
        assert [len(client.answer().body) for _ in range(200)] == [60_000] * 200


# Whether a body is wanted


def admitting(request: Request) -> Response:
    """A handler that wants the bodies of some paths."""
    if request.is_body_pending:
        if request.raw_path == b"/no":
            raise Refusal(403, "not here: go elsewhere")
        return Admitted(20_000 if request.raw_path == b"/little" else None)
    return Response(200, b"%d" % len(request.body))


@pytest.mark.parametrize(("path", "size", "status"), [("no", 9_000, 403), ("little", 30_000, 413)])
def test_a_handler_refuses_a_body_by_the_headers(path: str, size: int, status: int) -> None:
    with World(admitting, admits=True) as world:
        client = world.connect()
        client.send(f"POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode())
        assert client.answer().status == status
        assert client.is_closed()
        chunked = world.connect()
        chunked.send(f"POST /{path} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7530\r\n".encode())
        assert chunked.answer().status == status
        world.until(lambda: world.budget.request_bytes == 0)


def test_a_small_body_is_not_asked_about() -> None:
    def handler(request: Request) -> Response:
        assert not request.is_body_pending
        return Response(200, request.body)

    with World(handler, admits=True) as world:
        client = world.connect()
        client.send(POST + b"Content-Length: 8000\r\n\r\n")
        client.send(b"x" * 8_000)
        assert len(client.answer().body) == 8_000


def test_a_handler_that_decides_later_is_waited_for() -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(0)
        return admitting(request)

    with World(handler, admits=True) as world:
        client = world.connect()
        for _ in range(3):
            client.send(POST + b"Expect: 100-continue\r\nContent-Length: 300000\r\n\r\n")
            assert client.answer().status == 100
            client.send(b"x" * 300_000)
            assert client.answer().body == b"300000"
            client.send(POST + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000)
            assert client.answer().body == b"300000"
        client.send(b"POST /no HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.answer().status == 403
        assert client.is_closed()
        world.until(lambda: world.budget.request_bytes == 0)


def test_a_body_is_asked_for_when_it_is_its_turn() -> None:
    gate, asked = Gate(), []

    async def handler(request: Request) -> Response:
        asked.append((request.raw_path, request.is_body_pending))
        return admitting(request) if request.raw_path == b"/large" else await gate(request)

    with World(handler, admits=True) as world:
        client = world.connect()
        client.send(
            b"GET /first HTTP/1.1\r\nHost: x\r\n\r\nPOST /large HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n"
        )
        world.until(lambda: bool(gate.seen))
        assert asked == [(b"/first", False)]
        assert gate.event is not None
        world.loop.call_soon_threadsafe(gate.event.set)
        world.until(lambda: len(asked) > 1)
        client.send(b"x" * 9_000)
        assert [client.answer().status for _ in range(2)] == [200, 200]
        assert asked[1:] == [(b"/large", True), (b"/large", False)]
