"""The event loop of the process, and what is done about errors that no task gets."""

import asyncio
from typing import Any

import uvloop

from leveret.observability.logs import Log

LOG = Log("server")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop of uvloop whose known defect is not logged as an error."""
    loop = uvloop.new_event_loop()
    loop.set_exception_handler(_handle)
    return loop


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error as asyncio does, but for one that is uvloop's and harmless."""
    if _is_cancelled_connect(context):
        LOG.debug("connection attempt cancelled", transport=context["transport"])
    else:
        loop.default_exception_handler(context)


def _is_cancelled_connect(context: dict[str, Any]) -> bool:
    """Whether this comes of a connection attempt with TLS that was cancelled, as those to etcd are at a stop.

    A defect of uvloop (seen with 0.23): `Loop.create_connection` closes the handle when it is cancelled after TCP has
    connected, and does not tell the `SSLProtocol` above it. If the handshake has ended by then, `SSLProtocol._do_read`
    is due and writes the end of the handshake to the closed handle. The connection was wanted by nothing any more; a
    transport that was closed in any other way has told its `SSLProtocol`, which then writes nothing.
    """
    error = context.get("exception")
    return (
        context.get("message") == "Fatal error on SSL protocol"
        and isinstance(error, RuntimeError)
        and str(error).endswith("; the handler is closed")
        and _frames(error) == ["SSLProtocol._do_read", "SSLProtocol._process_outgoing", "UVStream.write"]
    )


def _frames(error: BaseException) -> list[str]:
    """The functions of uvloop that an error came through, without the one that raised it."""
    names, trace = [], error.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name.removeprefix("uvloop.loop."))
        trace = trace.tb_next
    return names[:-1]
