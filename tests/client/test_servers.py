"""Clients that know several nodes: when one fails, they ask the next."""

import asyncio
import fcntl
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import leveret
from leveret.client import servers
from leveret.client.network import ThreadConnection
from leveret.client.servers import SERVERS_MAX, address_of
from tests.client.flaky import Flaky
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S

NOBODY = "http://127.0.0.1:1"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody be left, or asked for a sign of life, because this machine has other things to do."""
    monkeypatch.setattr(servers, "SILENT_S", PATIENCE_S)
    monkeypatch.setattr(servers, "PROBE_S", PATIENCE_S)


@pytest.fixture
def hung() -> Iterator[str]:
    """A node whose process stands still: the system takes connections for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@contextmanager
def hurried(monkeypatch: pytest.MonkeyPatch, probe_s: float = 0.02) -> Iterator[None]:
    """Let clients ask soon whether a node lives."""
    with monkeypatch.context() as patched:
        patched.setattr(servers, "SILENT_S", 0.02)
        patched.setattr(servers, "PROBE_S", probe_s)
        yield


def test_the_next_node_is_asked_when_one_does_not_run(world: RestWorld) -> None:
    with leveret.connect(f"{NOBODY}, {world.url}", token=world.token) as client:
        client.queue("orders").send("x")
        assert repr(client) == f"<RemoteBroker {NOBODY},{world.url}>"
    assert len(world.broker.queue("orders")) == 1


@pytest.mark.parametrize("failure", ["lose", "refuse", "unable"])
def test_the_next_node_is_asked_when_one_fails_and_does_nothing_twice(
    world: RestWorld, flaky: Flaky, failure: str
) -> None:
    with leveret.connect(f"{flaky.url},{world.url}", token=world.token) as client:
        orders = client.queue("orders")
        setattr(flaky, failure, 2)
        orders.send("once")
        orders.send("and once")
        assert (getattr(flaky, failure), flaky.connections) == (1, 1), "one request failed, and no other came"
    assert [message.body for message in world.broker.queue("orders").receive(10)] == ["once", "and once"]


def test_after_the_last_node_comes_the_first(world: RestWorld, flaky: Flaky) -> None:
    with leveret.connect(f"{flaky.url},{NOBODY}", token=world.token) as client:
        flaky.lose = 1
        client.queue("orders").send("x")
        assert len(world.broker.queue("orders")) == 1


@pytest.mark.parametrize("failure", ["lose", "unable"])
def test_tasks_ask_the_next_node_as_well(world: RestWorld, flaky: Flaky, failure: str) -> None:
    async def scene() -> None:
        async with leveret.aconnect(f"{NOBODY},{flaky.url},{world.url}", token=world.token) as client:
            orders = await client.queue("orders")
            setattr(flaky, failure, 1)
            await orders.send("once")

    asyncio.run(scene())
    assert len(world.broker.queue("orders")) == 1
    assert flaky.connections == 1


def test_what_a_node_may_have_done_is_not_asked_of_the_next(world: RestWorld, flaky: Flaky) -> None:
    with leveret.connect(f"{flaky.url},{world.url}", token=world.token, idempotent=False) as client:
        orders = client.queue("orders")
        flaky.unable = 1
        with pytest.raises(leveret.Unreachable):
            orders.send("perhaps")
        assert orders.stats().ready == 0


@pytest.mark.parametrize("size_bytes", [1, 10_000_000])
def test_a_node_that_hangs_is_left_before_its_time_is_over(
    world: RestWorld, hung: str, monkeypatch: pytest.MonkeyPatch, size_bytes: int
) -> None:
    world.broker.queue("orders")
    with leveret.connect(f"{hung},{world.url}", token=world.token, timeout=PATIENCE_S, retries=0) as client:
        orders = client.queue("orders", create=False)
        with hurried(monkeypatch), pytest.raises(leveret.Unreachable, match="it gives no sign of life"):
            orders.send(bytes(size_bytes))
        orders.send("to the next one")
    assert len(world.broker.queue("orders")) == 1


def test_tasks_leave_a_node_that_hangs_as_well(world: RestWorld, hung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        urls = f"{hung},{world.url}"
        async with leveret.aconnect(urls, token=world.token, timeout=PATIENCE_S, retries=0) as client:
            # A loop that has much else to do may not even connect in that time.
            hurry = hurried(monkeypatch)
            with hurry, pytest.raises(leveret.Unreachable, match=r"it gives no sign of life|cannot connect"):
                await client.queue("orders")
            await client.queue("orders")

    asyncio.run(scene())


def test_what_must_not_be_repeated_has_all_its_time(hung: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with leveret.connect(f"{hung},{NOBODY}", timeout=0.2, idempotent=False) as client:
        orders = client.queue("orders", create=False)
        with hurried(monkeypatch), pytest.raises(leveret.Unreachable, match=r"no answer came \(timed out\)"):
            orders.send("perhaps")


def test_a_request_that_takes_its_time_is_waited_for(world: RestWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with leveret.aconnect(f"{world.url},{NOBODY}", token=world.token, retries=0) as client:
            assert await (await client.queue("orders")).receive(wait=0.2) == []

    with hurried(monkeypatch, probe_s=PATIENCE_S):
        with leveret.connect(f"{world.url},{NOBODY}", token=world.token, retries=0) as client:
            assert client.queue("orders").receive(wait=0.2) == []
        asyncio.run(scene())


def test_there_are_not_too_many_nodes() -> None:
    with pytest.raises(leveret.InvalidArgument, match="load balancer"):
        leveret.connect(",".join([NOBODY] * (SERVERS_MAX + 1)))
    for url in (f"{NOBODY},", "http://me:sec/ret@host", "http://host:99999"):
        with pytest.raises(leveret.InvalidArgument, match="http://HOST:PORT") as refusal:
            leveret.connect(url)
        assert "sec" not in str(refusal.value)


def test_a_process_may_have_very_many_files_open() -> None:
    number = 1_500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, number + 1), hard))
    try:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            link = ThreadConnection(address_of(f"http://127.0.0.1:{listener.getsockname()[1]}", None, None), PATIENCE_S)
            peer, _ = listener.accept()
            copy = socket.socket(fileno=fcntl.fcntl(link._socket, fcntl.F_DUPFD_CLOEXEC, number))
            link.abort()
            link._socket = copy
            with peer:
                assert link.fresh
                peer.sendall(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
                assert copy.recv(1, socket.MSG_PEEK)
                assert not link.fresh
            link.abort()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
