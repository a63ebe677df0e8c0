"""Requests find the shard that answers them, wherever it is, and answers come back whole or not at all."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, cast

import pytest

from leveret.cluster.forwarding import forwarder as forwarders
from leveret.cluster.forwarding.dispatcher import values_of
from leveret.cluster.forwarding.forwarder import Forwarder
from leveret.cluster.forwarding.handler import Api
from leveret.core.errors import NotFound, Unreachable
from leveret.protocols.http.problem import problem
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Response, Streamed
from leveret.runtime.runtime import Runtime
from leveret.security.identity import Identity
from tests.cluster.cluster import Cluster, OneNode

PIECE = b"0123456789abcdef" * 65_536  # a part of an answer, 1 MiB
NONE_S = -1.0  # of patience: whatever fails is not tried again


class Echo:
    """Answers of a shard that tests ask for by the path."""

    def __init__(self, shard_id: str, runtime: Runtime) -> None:
        self.shard_id = shard_id
        self.waiting: list[asyncio.Future[Response]] = []
        self.parts_given = 0
        self.closed = asyncio.Event()
        self.by_name: Mapping[str, Api] = {"echo": Api(self.answer, problem)}

    def answer(self, request: Request) -> Any:
        return getattr(self, request.path[1:])(request)

    def same(self, request: Request) -> Response:
        assert request.identity is not None
        who = f"{request.identity.user} {request.identity.scopes} {sorted(request.headers)}"
        return Response(201, request.body, "text/plain", (("Shard", self.shard_id), ("Who", who)))

    def missing(self, request: Request) -> Response:
        raise NotFound("it is not there")

    def broken(self, request: Request) -> Response:
        raise ZeroDivisionError

    def later(self, request: Request) -> Awaitable[Response]:
        self.waiting.append(asyncio.get_running_loop().create_future())
        return self.waiting[-1]

    def parts(self, request: Request) -> Streamed:
        return Streamed(self.all_parts(), "text/plain", (("Shard", self.shard_id),))

    async def all_parts(self) -> AsyncGenerator[bytes, None]:
        try:
            for _ in range(100):
                self.parts_given += 1
                yield PIECE
                await asyncio.sleep(0)
        finally:
            self.closed.set()

    def describe(self, kind: str, vhost: str, name: str, options: Mapping[str, Any]) -> None:
        return None

    def close(self) -> None:
        for each in self.waiting:
            if not each.done():
                each.set_result(Response(200, b"nothing came"))


class World:
    """Two nodes; all shards with an odd number are on b, and a asks."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, Runtime], Echo] = {}
        self.cluster = Cluster("a", "b", make_apis=self.make_apis)
        self.forwarder: Forwarder = self.member("a").node.forwarder

    def make_apis(self, shard_id: str, runtime: Runtime) -> Echo:
        return self.made.setdefault((shard_id, runtime), Echo(shard_id, runtime))

    def member(self, name: str) -> OneNode:
        return self.cluster.members[name]

    def echo(self, shard_id: str) -> Echo:
        (found,) = (each for (shard, _), each in self.made.items() if shard == shard_id)
        return found

    async def ask(self, shard_id: str, path: str, body: bytes = b"", method: str = "GET", **options: Any) -> Any:
        answer = self.forwarder.ask(shard_id, "echo", request(path, body, method), **options)
        return await answer if isinstance(answer, Awaitable) else answer


def request(path: str, body: bytes = b"", method: str = "GET") -> Request:
    made = Request(
        method, path.encode(), {b"authorization": b"secret", b"x": b"\xff"}, HttpPeer("10.0.0.1", 5, True, "me")
    )
    made.body = body
    made.identity = Identity("ann", frozenset(("monitoring",)), ("read:*",))
    return made


def told(name: str, request: Request) -> Response:
    return Response(200, name.encode())


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    made = World()
    yield made
    made.cluster.close()


@pytest.mark.parametrize("shard_id", ["0", "1"])
@pytest.mark.parametrize("size", [0, 5, 3 << 20])
def test_a_request_is_answered_by_its_shard(world: World, shard_id: str, size: int) -> None:
    body = bytes(size)
    answer = world.cluster.run(world.ask(shard_id, "/same", body, "POST"))
    assert (answer.status, answer.body, answer.content_type) == (201, body, "text/plain")
    headers = dict(answer.headers)
    assert headers["Shard"] == shard_id
    assert headers["Who"].startswith("ann ('read:*',) ")
    assert ("authorization" in headers["Who"]) is (shard_id == "0")  # no link carries it


def test_a_refusal_comes_back_as_an_answer(world: World) -> None:
    assert world.cluster.run(world.ask("1", "/missing")).body == problem(NotFound("it is not there")).body
    failed = world.cluster.run(world.ask("1", "/broken"))
    assert failed.status == 500
    assert b"under request" in failed.body


def test_parts_come_as_fast_as_they_are_read(world: World) -> None:
    async def read_slowly() -> tuple[int, int]:
        echo = world.echo("1")
        answer = await world.ask("1", "/parts")
        async with aclosing(answer.parts) as parts:
            first = await anext(parts)
            while not (world.member("a").node.links["b"].is_slow or echo.parts_given >= 8):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            given = echo.parts_given
            rest = [len(part) async for part in parts]
        return given, len(first) + sum(rest)

    given, total = world.cluster.run(read_slowly())
    assert given < 50, "nobody read them"
    assert total == 100 * len(PIECE)


def test_a_client_that_goes_ends_it_over_there(world: World) -> None:
    async def leave() -> None:
        echo = world.echo("3")
        asking = asyncio.create_task(world.ask("3", "/later"))
        while not echo.waiting:
            await asyncio.sleep(0.01)
        asking.cancel()
        while not echo.waiting[0].cancelled():
            await asyncio.sleep(0.01)
        answer = await world.ask("3", "/parts")
        await anext(answer.parts)
        await answer.parts.aclose()
        await echo.closed.wait()

    world.cluster.run(leave())


def test_a_node_that_stops_lets_nobody_wait(world: World) -> None:
    async def stop() -> None:
        echo = world.echo("3")
        echo.waiting.clear()
        poll, send = (
            asyncio.create_task(world.ask("3", "/later", b"x", "POST", again=again)) for again in (True, False)
        )
        while len(echo.waiting) < 2:
            await asyncio.sleep(0.01)
        world.forwarder.close()
        with pytest.raises(Refusal, match="stopping"):
            await poll
        for each in echo.waiting:
            if not each.cancelled():
                each.set_result(Response(200, b"done"))
        assert (await send).body == b"done"

    world.cluster.run(stop())


def test_a_request_that_always_fails_where_it_is_done_is_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Request] = []

    def fail(request: Request) -> Response:
        calls.append(request)
        if len(calls) > 1:
            monkeypatch.setattr(forwarders, "PATIENCE_S", NONE_S)
        raise Unreachable("its database is away")

    async def ask() -> None:
        world.echo("2").fail = fail  # type: ignore[attr-defined]
        served = world.member("a").hand_over("2")
        asking = asyncio.create_task(world.ask("2", "/fail"))
        await asyncio.sleep(0)
        world.member("a").serve("2", served)
        with pytest.raises(Refusal, match="no node has shard 2"):
            await asking
        assert len(calls) == 2

    world.cluster.run(ask())


def test_a_node_refuses_in_the_same_way_whoever_asks(world: World) -> None:
    def refuse(request: Request) -> Response:
        raise NotFound("it is not there")

    async def ask() -> None:
        for member in world.cluster.members.values():
            member.node.edges["refusing"] = Api(refuse, problem)
        answers = await world.forwarder.everywhere("refusing", request("/"))
        assert {name: answer.status for name, answer in answers.items()} == {"a": 404, "b": 404}
        assert await values_of(answers) == {}

    world.cluster.run(ask())


def test_nodes_are_asked_too(world: World) -> None:
    async def ask() -> None:
        for member in world.cluster.members.values():
            member.node.edges["name"] = Api(partial(told, member.name), problem)
        answers = await world.forwarder.everywhere("name", request("/"))
        assert {name: cast(Response, each).body for name, each in answers.items()} == {"a": b"a", "b": b"b"}
        with pytest.raises(Refusal, match="cannot be reached"):
            await world.forwarder.ask_node("z", "name", request("/"))

    world.cluster.run(ask())


def test_a_request_finds_the_next_owner(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def move() -> None:
        served = world.member("b").hand_over("1")
        world.cluster.owners["1"] = "b"  # etcd says so still
        asking = asyncio.create_task(world.ask("1", "/same", b"x", "POST"))
        await asyncio.sleep(0.1)
        world.member("a").serve("1", served)
        world.cluster.owners["1"] = "a"
        assert (await asking).status == 201
        served = world.member("a").hand_over("1")
        world.member("b").serve("1", served)
        world.cluster.owners["1"] = "b"
        assert (await world.ask("1", "/same", b"x", "POST")).status == 201

    world.cluster.run(move())
    monkeypatch.setattr(forwarders, "PATIENCE_S", NONE_S)
    owner = world.cluster.owners.pop("3")
    served = world.member("b").hand_over("3")

    async def ask_in_vain() -> None:
        with pytest.raises(Refusal, match="no node has shard 3") as refused:
            await world.ask("3", "/same")
        assert (refused.value.status, refused.value.headers) == (503, (("Retry-After", "1"),))
        world.member("b").serve("3", served)

    world.cluster.run(ask_in_vain())
    world.cluster.owners["3"] = owner


def test_a_lost_link_is_asked_about_again_only_what_is_safe(world: World) -> None:
    async def lose() -> None:
        echo = world.echo("1")
        echo.waiting.clear()
        asking = [
            asyncio.create_task(world.ask("1", "/later", b"x", method, again=again))
            for method, again in [("POST", False), ("GET", False), ("POST", True)]
        ]
        while len(echo.waiting) < 3:
            await asyncio.sleep(0.01)
        world.member("a").node.links["b"].close()
        with pytest.raises(Refusal, match="perhaps before it had done it"):
            await asking[0]
        while len(echo.waiting) < 5:
            await asyncio.sleep(0.01)
        for each in echo.waiting[3:]:
            each.set_result(Response(200, b"after all"))
        assert [(await each).body for each in asking[1:]] == [b"after all"] * 2

    world.cluster.run(lose())


def test_another_node_has_limits_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwarders, "BODIES_BYTES_MAX", 1_000)
    assert world.cluster.run(world.ask("1", "/same", bytes(1_000), "POST")).status == 201
    monkeypatch.setattr(forwarders, "PATIENCE_S", NONE_S)
    with pytest.raises(Refusal):
        world.cluster.run(world.ask("1", "/same", bytes(1_001), "POST"))
    monkeypatch.setattr(forwarders, "FORWARDED_MAX", 0)
    with pytest.raises(Refusal):
        world.cluster.run(world.ask("1", "/same"))
