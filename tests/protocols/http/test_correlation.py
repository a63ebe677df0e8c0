"""Ids of requests: accepted, answered, and in every line of the log that a request leads to."""

import asyncio
import io
import json
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.observability.logs import Log, start_logging, stop_logging
from leveret.protocols.http.request import Request
from leveret.protocols.http.response import Response
from tests.protocols.http.world import World

LOG = Log("test")
TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = start_logging("debug", "json", stream)
    yield stream
    stop_logging(handler)


def lines(written: io.StringIO, event: str) -> list[dict[str, Any]]:
    return [line for line in map(json.loads, written.getvalue().splitlines()) if line["event"] == event]


@pytest.mark.parametrize("given", ["r-1", "a" * 128, "0f/+=:~._", "7"])
def test_a_well_formed_id_is_answered(given: str) -> None:
    with World(lambda request: Response(204)) as world:
        assert world.connect().request("GET /", f"X-Request-Id: {given}").headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a" * 129, "two words", 'a"b', "{}", "\u00e4"])
def test_another_one_is_replaced(given: str) -> None:
    with World(lambda request: Response(204)) as world:
        answered = world.connect().request("GET /", f"X-Request-Id: {given}").headers["x-request-id"]
    assert len(answered) == 16
    assert int(answered, 16) >= 0


def test_who_does_not_ask_is_told_no_id() -> None:
    with World(lambda request: Response(204)) as world:
        assert "x-request-id" not in world.connect().request("GET /").headers


def test_what_is_logged_on_the_way_names_request_and_trace(written: io.StringIO) -> None:
    async def later(request: Request) -> Response:
        LOG.info("begun")
        await asyncio.sleep(0)
        LOG.info("done")
        return Response(204)

    with World(later) as world:
        client = world.connect()
        client.request("GET /a?b=hush", "X-Request-Id: r1", f"traceparent: 00-{TRACE}-b7ad6b7169203331-01")
        client.request("GET /b", "X-Request-Id: r2", "traceparent: nonsense")
    for event in ("begun", "done", "request answered"):
        first, second = lines(written, event)
        assert (first["request"], first["trace_id"]) == ("r1", TRACE)
        assert second["request"] == "r2"
        assert "trace_id" not in second
    assert lines(written, "request answered")[0]["path"] == "/a"
    assert "hush" not in written.getvalue()


def test_an_id_that_is_in_the_log_is_told(written: io.StringIO) -> None:
    def broken(request: Request) -> Response:
        raise KeyError("broken")

    with World(broken) as world:
        answer = world.connect().request("GET /")
    (line,) = lines(written, "request failed")
    assert answer.headers["x-request-id"] == line["request"]
    assert line["request"] in json.loads(answer.body)["detail"]


def test_an_event_of_no_request_names_none(written: io.StringIO) -> None:
    with World(lambda request: Response(204)) as world:
        world.connect().request("GET /", "X-Request-Id: r1")
        LOG.info("elsewhere")
    assert "request" not in lines(written, "elsewhere")[0]


@pytest.mark.parametrize(
    "path",
    [
        "/api/auth/hash_password/hush-hush",
        "/api/auth/hash_password/hush/hush",
        "/api/auth/hash%5Fpassword/hush%20hush",
        "/%61pi/auth/hash_password/%68ush?columns=hush",
    ],
)
def test_a_password_in_a_path_is_not_logged(written: io.StringIO, path: str) -> None:
    def fail(request: Request) -> Response:
        raise ZeroDivisionError

    for answer in (lambda request: Response(204), fail):
        with World(answer) as world:
            world.connect().request(f"GET {path}")
    answered = lines(written, "request answered")
    assert {line["path"] for line in answered} == {"/api/auth/hash_password/(hidden)"}
    assert len(answered) == 2
    assert "ush" not in written.getvalue()
