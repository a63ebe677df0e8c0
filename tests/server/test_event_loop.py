"""Errors that no task gets: the one that is a defect of uvloop is no error in the log, all others are."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from leveret.server.process import new_event_loop
from tests.server.certificates import Authority


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a coroutine function in the loop of a server."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged as an error."""
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def test_a_connect_that_is_cancelled_when_its_handshake_ends_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = Authority(tmp_path)
    issued = authority.issue("localhost", ("localhost",))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(issued.cert, issued.key)
    calling = ssl.create_default_context(cafile=str(authority.cert))
    seen = []

    async def main() -> None:
        loop, done = asyncio.get_running_loop(), asyncio.Event()

        class Caller(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                loop.call_soon(cancel)

        def cancel() -> None:
            # What a task does that is cancelled here: it has not looked at its connect since TCP connected.
            with pytest.raises(asyncio.CancelledError):
                connect.throw(asyncio.CancelledError())
            loop.call_soon(loop.call_soon, done.set)

        server_handler = loop.get_exception_handler()
        assert server_handler is not None, "a server has a handler"
        inner = server_handler

        def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            seen.append(context["message"])
            inner(loop, context)

        loop.set_exception_handler(handle)
        server = await asyncio.start_server(lambda reader, writer: None, "127.0.0.1", 0, ssl=serving)
        port = server.sockets[0].getsockname()[1]
        connect = loop.create_connection(Caller, "127.0.0.1", port, ssl=calling, server_hostname="localhost")
        connect.send(None)
        await done.wait()
        server.close()

    run(main)
    assert seen == ["Fatal error on SSL protocol"], "uvloop has mended it: remove the handler"
    assert errors(caplog) == []


@pytest.mark.parametrize(
    "context",
    [
        {"message": "Fatal error on SSL protocol", "exception": RuntimeError("x; the handler is closed")},
        {"message": "Fatal error on SSL protocol", "exception": ValueError("wrong")},
        {"message": "Exception in callback", "exception": RuntimeError("x; the handler is closed")},
        {"message": "something without an exception"},
    ],
)
def test_any_other_error_is_logged(context: dict[str, object], caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        asyncio.get_running_loop().call_exception_handler(context)

    run(main)
    (told,) = errors(caplog)
    assert str(context["message"]) in told
