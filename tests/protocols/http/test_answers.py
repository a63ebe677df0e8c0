"""What handlers give and raise, and what clients get of it."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator
from unittest.mock import patch

import pytest

from leveret.core.errors import AccessRefused, QueueNotFound
from leveret.protocols.http.limits import HttpLimits
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Heads, Response, Streamed, json_response
from tests.protocols.http.world import World
from tests.waiting import PATIENCE_S


async def numbers(count: int, size: int = 10) -> AsyncGenerator[bytes, None]:
    for number in range(count):
        await asyncio.sleep(0)
        yield b"%d" % number * size


def test_a_future_is_awaited_without_a_task() -> None:
    def later(request: Request) -> asyncio.Future[Response]:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Response] = loop.create_future()
        loop.call_soon(future.set_result, Response(201, b"done"))
        return future

    with World(later) as world:
        assert world.connect().request("GET /")[::2] == (201, b"done")


def test_an_answer_without_a_body_has_no_length() -> None:
    with World(lambda request: Response(204)) as world:
        client = world.connect()
        for _ in range(2):
            answer = client.request("DELETE /")
            assert answer.status == 204
            assert "content-length" not in answer.headers


@pytest.mark.parametrize(
    ("error", "status"), [(QueueNotFound("no queue"), 404), (AccessRefused("no"), 403), (Refusal(418, "tea"), 418)]
)
def test_refusals_are_told_and_the_connection_goes_on(error: Exception, status: int) -> None:
    async def raising(request: Request) -> Response:
        raise error

    def raising_now(request: Request) -> Response:
        raise error

    for handler in (raising, raising_now):
        with World(handler) as world:
            client = world.connect()
            for _ in range(2):
                answer = client.request("GET /")
                assert (answer.status, json.loads(answer.body)["detail"]) == (status, str(error))


def test_a_broken_handler_is_logged_and_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def broken(request: Request) -> Response:
        raise ZeroDivisionError("a secret")

    with caplog.at_level(logging.ERROR, "leveret.http"), World(broken) as world:
        client = world.connect()
        answer = client.request("GET /somewhere")
        assert answer.status == 500
        assert b"secret" not in answer.body
        number = json.loads(answer.body)["detail"].split()[-1]
        assert client.request("GET /").status == 500
    fields = caplog.records[0].__dict__["fields"]
    assert (fields["request"], fields["path"]) == (number, "/somewhere")


@pytest.mark.parametrize("given", [None, "text"])
def test_a_handler_that_gives_nonsense_is_a_failure(given: object) -> None:
    async def nonsense(request: Request) -> Response:
        return given  # type: ignore[return-value]

    def nonsense_now(request: Request) -> Response:
        return given  # type: ignore[return-value]

    for handler in (nonsense, nonsense_now):
        with World(handler) as world:
            assert world.connect().request("GET /").status == 500


def test_a_header_with_a_line_break_is_not_sent() -> None:
    with World(lambda request: Response(200, headers=[("X-Name", "a\r\nSet-Cookie: b")])) as world:
        answer = world.connect().request("GET /")
        assert (answer.status, answer.headers.get("set-cookie")) == (500, None)


@pytest.mark.parametrize("path", ["/now", "/later", "no path at all"])
def test_a_server_that_cannot_make_any_answer_closes(path: str, caplog: pytest.LogCaptureFixture) -> None:
    async def later(request: Request) -> Response:
        return Response(200, request.body)

    def broken(status: int) -> bytes:
        raise RuntimeError(f"no head for {status}")

    with World(lambda request: later(request) if request.path == "/later" else Response()) as world:
        with patch.object(Heads, "__missing__", side_effect=broken) as head:
            client = world.connect()
            client.send(f"POST {path} HTTP/1.1\r\nHost: test\r\nContent-Length: 1\r\n\r\nx".encode())
            assert client.is_closed()
        assert 1 <= head.call_count <= 2
        world.until(lambda: not len(world.server))
        assert world.budget.request_bytes == 0
        assert "no head for" in caplog.text


def test_a_stream_is_chunked() -> None:
    with World(lambda request: Streamed(numbers(100), "text/plain")) as world:
        client = world.connect()
        for _ in range(2):
            answer = client.request("GET /")
            assert answer.body == b"".join(b"%d" % number * 10 for number in range(100))
            assert answer.headers["transfer-encoding"] == "chunked"
        assert client.request("HEAD /").status == 200
        assert client.request("GET /").status == 200


def test_a_stream_of_known_length_is_not() -> None:
    with World(lambda request: Streamed(numbers(10), length=100)) as world:
        answer = world.connect().request("GET /")
        assert (len(answer.body), answer.headers["content-length"]) == (100, "100")


def test_a_stream_to_an_old_client_ends_with_the_connection() -> None:
    with World(lambda request: Streamed(numbers(10))) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert len(client.answer().body) == 100


def test_a_stream_may_come_out_of_a_coroutine() -> None:
    async def later(request: Request) -> Streamed:
        return Streamed(numbers(3))

    with World(later) as world:
        client = world.connect()
        assert [len(client.request("GET /").body) for _ in range(2)] == [30, 30]


def test_a_stream_that_fails_is_cut_off() -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield b"some"
        raise ZeroDivisionError

    with (
        World(lambda request: Streamed(failing())) as world,
        pytest.raises((EOFError, ConnectionResetError, ValueError)),
    ):
        world.connect().request("GET /")


def test_a_stream_waits_for_its_reader_and_ends_with_it() -> None:
    made: list[int] = []
    ended = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                made.append(1)
                yield b"x" * 100_000
                await asyncio.sleep(0)
        finally:
            ended.set()

    with World(lambda request: Streamed(endless())) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.socket.recv(1) == b"H"
        assert world.connect().request("HEAD /").status == 200
        client.close()
        world.until(ended.is_set)
    assert len(made) < 1_000


def test_a_reader_that_stops_is_closed() -> None:
    async def endless() -> AsyncGenerator[bytes, None]:
        while True:
            yield b"x" * 100_000

    with World(lambda request: Streamed(endless()), HttpLimits(write_s=0.05)) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert client.socket.recv(1) == b"H"
        world.until(lambda: not len(world.server))


def test_answers_that_nobody_reads_are_not_made() -> None:
    made: list[int] = []

    def large(request: Request) -> Response:
        made.append(1)
        return Response(200, b"x" * 1_000_000)

    with World(large) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 90)
        other = world.connect()
        for _ in range(5):
            assert len(other.request("GET /").body) == 1_000_000
        assert len(made) < 60
        assert [len(client.answer().body) for _ in range(90)] == [1_000_000] * 90


def test_too_many_requests_at_once_are_refused_after_the_first_ones() -> None:
    async def slow(request: Request) -> Response:
        await asyncio.sleep(0.01)
        return Response(200)

    with World(slow, HttpLimits(pipelined_max=3)) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
        assert [client.answer().status for _ in range(5)] == [200] * 4 + [429]


def test_a_flood_of_one_client_lets_others_have_their_turn() -> None:
    order: list[bytes] = []

    def note(request: Request) -> Response:
        order.append(request.raw_path)
        return Response(200)

    with World(note) as world:
        good, flooding = world.connect(), world.connect()
        assert good.request("GET /first").status == 200
        flood = b"GET /f HTTP/1.1\r\nHost: x\r\n\r\n" * 5_000

        def both() -> None:
            # In one turn of the loop, so that the good one is surely there while the flood is.
            flooding.send(flood)
            good.send(b"GET /good HTTP/1.1\r\nHost: x\r\n\r\n")

        world.loop.call_soon_threadsafe(both)
        assert good.answer().status == 200
        assert [flooding.answer().status for _ in range(5_000)] == [200] * 5_000
    assert order.index(b"/good") < 1_000


def test_work_for_a_client_that_goes_is_cancelled() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def forever(request: Request) -> Response:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Response()

    with World(forever) as world:
        client = world.connect()
        client.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
        world.until(started.is_set)
        client.close()
        world.until(cancelled.is_set)
        world.until(lambda: not len(world.server))
        assert world.budget.request_bytes == 0


def test_a_drain_lets_requests_finish_and_closes_the_idle() -> None:
    started, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        if request.raw_path == b"/slow":
            started.set()
            await go_on.wait()
        return json_response("done")

    with World(slow) as world:
        idle, busy = world.connect(), world.connect()
        assert idle.request("GET /").status == 200
        busy.send(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        world.until(started.is_set)
        world.begin_stop(PATIENCE_S)
        assert idle.is_closed()
        world.loop.call_soon_threadsafe(go_on.set)
        answer = busy.answer()
        assert (answer.body, answer.headers["connection"]) == (b'"done"', "close")
        assert busy.is_closed()
        world.stop()
        assert world.drained == 0


def test_a_drain_does_not_wait_for_ever() -> None:
    started = asyncio.Event()

    async def forever(request: Request) -> Response:
        started.set()
        await asyncio.Event().wait()
        return Response()

    with World(forever) as world:
        client = world.connect()
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        silent = world.connect()
        silent.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert silent.answer().status == 100
        world.until(started.is_set)
        world.stop(0.1)
        assert world.drained == 2
        assert client.is_closed()
