"""Sockets in a loop of the test's own; tests/server has them in a process of their own."""

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
import uvloop

import leveret
from leveret.protocols.amqp import server as amqp_server
from leveret.protocols.amqp import server as module
from leveret.protocols.amqp.limits import AmqpLimits
from leveret.protocols.amqp.server import AmqpServer, AmqpSocket
from leveret.protocols.net.admission import ConnectionBudget
from leveret.protocols.net.listener import bind
from leveret.security.access import Access
from tests.waiting import PATIENCE_S

PROTOCOL_HEADER = b"AMQP\0\0\x09\x01"
JOBS = 200
HANDSHAKE_MS = round(PATIENCE_S * 1_000)

Scenario = Callable[[AmqpServer, AmqpSocket, socket.socket], Awaitable[None]]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is true."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.001)


def served(scenario: Scenario) -> None:
    """Run a scenario with a server, one accepted socket and the client's end of it."""

    async def run() -> None:
        with leveret.open() as broker, bind("127.0.0.1", 0) as bound:
            with broker.runtime as core:
                access = Access(core, default_user=None)
            server = AmqpServer(
                broker.runtime, access, AmqpLimits(handshake_ms=HANDSHAKE_MS), ConnectionBudget(10, 10, 10)
            )
            server.listen(bound)
            with socket.create_connection(bound.getsockname()) as client:
                client.setblocking(False)
                await until(lambda: server.hub.connections)
                (accepted,) = server.clients
                await scenario(server, accepted, client)
                server.stop_listening()
                await server.drain(320, "shutdown", 0)

    asyncio.run(run())


def test_a_client_that_never_reads_does_not_keep_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", 0.01)

    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        assert accepted._transport is not None
        accepted._transport.write(bytes(32 << 20))  # more than the kernel takes
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        await until(lambda: not server.clients)
        assert (server.admission.connections, server.hub.connections) == (0, set())

    served(scenario)


def test_a_client_may_finish_what_it_was_saying_when_it_is_told_to_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", PATIENCE_S)

    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        while await loop.sock_recv(client, 4_096):
            pass
        assert not server.hub.connections
        # The first one would be answered with a reset, the second one would fail.
        for _ in range(2):
            client.sendall(b"and one more thing")
        client.close()
        await until(lambda: not server.clients)

    served(scenario)


def test_a_client_that_does_not_read_gets_no_more_until_it_does() -> None:
    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        assert accepted._transport is not None
        (connection,) = server.hub.connections
        accepted._transport.write(bytes(32 << 20))
        assert connection.outlet.paused
        loop = asyncio.get_running_loop()
        left = 32 << 20
        while left:
            left -= len(await loop.sock_recv(client, min(left, 1 << 20)))
        await until(lambda: not connection.outlet.paused)

    served(scenario)


def test_a_client_that_still_reads_has_the_whole_time_of_a_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(amqp_server, "DRAIN_IDLE_S", 0.01)

    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        assert accepted._transport is not None
        loop, size = asyncio.get_running_loop(), 32 << 20
        accepted._transport.write(bytes(size))
        draining = asyncio.create_task(server.drain(320, "shutdown", PATIENCE_S))
        idle = loop.create_future()
        loop.call_later(0.1, idle.set_result, None)  # the time of idle clients is over
        await idle
        received = 0
        while data := await loop.sock_recv(client, 1 << 20):
            received += len(data)
        client.close()
        assert (await draining, received) == (0, size)

    served(scenario)


def test_a_job_that_fails_is_logged_and_nothing_else(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        done: list[object] = []
        server.hub.in_thread(lambda: 1 // 0, done.append)
        server.hub.in_thread(lambda: "second", done.append)
        await until(lambda: done and "job failed" in caplog.text)
        assert done == ["second"]
        client.sendall(PROTOCOL_HEADER)
        assert await asyncio.get_running_loop().sock_recv(client, 1) == b"\x01"  # connection.start

    served(scenario)
    assert "ZeroDivisionError" in caplog.text


def test_other_threads_may_ask_for_jobs() -> None:
    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        asyncio.get_running_loop().set_debug(True)  # the loop refuses calls of other threads
        finished: list[threading.Thread] = []

        def ask() -> None:
            for _ in range(JOBS):
                server.hub.in_thread(lambda: None, lambda _: finished.append(threading.current_thread()))
                time.sleep(0)

        await asyncio.to_thread(ask)
        await until(lambda: len(finished) == JOBS)
        assert set(finished) == {threading.current_thread()}

    served(scenario)


def test_what_is_said_outside_of_a_turn_is_written_soon() -> None:
    async def scenario(server: AmqpServer, accepted: AmqpSocket, client: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        server._sweep.cancel()
        (connection,) = server.hub.connections
        for _ in range(2):
            with server.hub.runtime:
                connection.outlet.heartbeat()
                connection.outlet.note()
            async with asyncio.timeout(PATIENCE_S):
                assert await loop.sock_recv(client, 8) == b"\x08" + bytes(6) + b"\xce"

    served(scenario)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize("turns", range(6))
def test_a_client_may_be_sent_away_at_every_moment_of_its_coming(
    run: Callable[[Coroutine[Any, Any, None]], None], turns: int
) -> None:
    async def scenario() -> None:
        with leveret.open() as broker, socket.create_server(("127.0.0.1", 0)) as bound:
            with broker.runtime as core:
                access = Access(core, default_user=None)
            server = AmqpServer(broker.runtime, access, AmqpLimits(), ConnectionBudget(10, 10, 10))
            with socket.create_connection(bound.getsockname()) as client:
                accepted, (host, port) = bound.accept()
                server._accepted(None, accepted, host, port)
                for _ in range(turns):
                    await asyncio.sleep(0)
                for each in list(server.clients):
                    server.close(each)
                async with asyncio.timeout(PATIENCE_S):
                    await server.drain(320, "shutdown", 0)
                assert (server.clients, server.hub.connections, server.admission.connections) == ({}, set(), 0)
                client.setblocking(False)
                async with asyncio.timeout(PATIENCE_S):
                    while await asyncio.get_running_loop().sock_recv(client, 4_096):
                        continue

    run(scenario())
