"""The control socket of a running server: verbs of its operator, as lines of JSON.

    control.sock in the data directory, for its owner only
    >  {"verb": "users.tags", "name": "ada", "tags": ["monitoring"]}
    <  {"result": {"name": "ada", ...}}     once the change is durable
    <  {"error": "NotFound", "message": "no user 'ada': add it first"}

A user who may open the socket may read the data as well: the file system decides, and there is no login.
"""

import asyncio
import json
import os
import socket
import stat
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from inspect import isawaitable
from typing import Any

from leveret.core.errors import InvalidArgument, LeveretError, PreconditionFailed, TooMany
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.runtime.runtime import Runtime
from leveret.server.administration import cluster, groups, journal, streams
from leveret.server.administration.context import OPERATOR, VerbContext
from leveret.server.administration.verbs import call

SOCKET_NAME = "control.sock"
PATH_BYTES_MAX = 100  # what fits into a socket address everywhere
REQUEST_BYTES_MAX = 1 << 20  # a request is read into memory before it is looked at
REQUEST_S = 30.0  # for the next request to come, and for an answer to be taken
CONNECTIONS_MAX = 16
LAST_WORDS_S = 1.0  # for answers that are under way when the server stops
SHOWN = ("name", "user", "vhost", "exchange", "stream", "section")  # the arguments that the log tells
# Verbs that change nothing: monitoring asks all the time.
QUESTIONS = (
    "list",
    "show",
    "lag",
    "export",
    "status",
    "examine",
    "firing",
    "silences",
    "history",
    "receivers",
    "heads",
)

SHARDED = frozenset((*streams.VERBS, *groups.VERBS, *journal.VERBS, "alerts.firing", "alerts.history", "audit.list"))
"""Verbs on what the shards and nodes of a cluster have for themselves."""

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs a verb and gives what it gives once that lasts; the verb may be run more than once."""

LOG = Log("control")


def durably(runtime: Runtime) -> Run:
    """Run verbs under the lock of a broker, and wait for its disk."""

    async def run(verb: Callable[[], Any]) -> Any:
        with runtime:
            result = verb()
            frame = runtime.commit()
        await runtime.wait_async(frame)
        return result

    return run


async def perform(run: Run, context: VerbContext, verb: object, arguments: dict[str, Any]) -> Any:
    """What a verb gives, once that lasts."""
    if str(verb) in cluster.VERBS:
        # Without the lock, and without the catalog of the cluster: status is asked for when that is in trouble.
        result = call(context, verb, arguments)
    elif context.remote is not None and str(verb) in SHARDED:
        result = context.remote.perform(context, str(verb), arguments)
    else:
        result = await run(lambda: call(context, verb, arguments))
    return await result if isawaitable(result) else result


@contextmanager
def socket_address(directory: str) -> Iterator[str]:
    """The address of the control socket; where the path is too long for one, a short way to the same directory."""
    path = os.path.join(directory, SOCKET_NAME)
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET_NAME}"
    finally:
        os.close(folder)


def listening_socket(directory: str) -> socket.socket:
    """The socket of the process that holds the data directory; one that is there was left by a process that was
    killed.
    """
    path = os.path.join(directory, SOCKET_NAME)
    if os.path.lexists(path):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            raise PreconditionFailed(f"{path} is not a socket: move it away")
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with socket_address(directory) as address:
            listener.bind(address)
        os.chmod(path, 0o600)
        # Only now: no client can connect before this.
        listener.listen(CONNECTIONS_MAX)
    except BaseException:
        listener.close()
        raise
    return listener


class ControlServer:
    """Listens on the control socket in the event loop of the server."""

    def __init__(self, run: Run, context: VerbContext, directory: str, audit: Audit | None = None) -> None:
        """Serve a site from the data directory that this process holds; what is changed is noted in the audit log."""
        self._audit = audit
        self._run = run
        self._context = context
        self._directory = directory
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen."""
        listener = listening_socket(self._directory)
        self._server = await asyncio.start_unix_server(self._accept, sock=listener, limit=REQUEST_BYTES_MAX)

    async def stop(self) -> None:
        """Hang up, and leave no socket behind."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if self._busy:
            await asyncio.wait(self._busy, timeout=LAST_WORDS_S)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._directory, SOCKET_NAME))

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A client has connected."""
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer, len(self._tasks)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, others: int) -> None:
        """Answer until the other side has no more to ask, has gone, or is too slow."""
        try:
            with suppress(OSError):
                if others >= CONNECTIONS_MAX:
                    await _send(writer, refusal(TooMany("too many are connected: try again in a moment")))
                else:
                    await self._answer_all(reader, writer)
        finally:
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request after the other."""
        try:
            while line := await _next_line(reader):
                with self._answering():
                    await _send(writer, await self.answer(line))
        except InvalidArgument as error:
            await _send(writer, refusal(error))

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """A client waits for an answer: a stop does not cut it off."""
        task = asyncio.current_task()
        assert task is not None, "answers are given by tasks"
        self._busy.add(task)
        try:
            yield
        finally:
            self._busy.discard(task)

    async def answer(self, line: bytes) -> dict[str, Any]:
        """Do what a line says; the answer comes when it is durable."""
        try:
            request = parsed(line)
            verb = request.pop("verb", None)
            result = await perform(self._run, self._context, verb, request)
        except LeveretError as error:
            return refusal(error)
        except Exception as error:
            LOG.error("control request failed", error)
            return {"error": LeveretError.__name__, "message": "the server failed: its log says why"}
        self._note(str(verb), shown(request))
        return {"result": result}

    def _note(self, verb: str, facts: dict[str, Any]) -> None:
        """Tell what was done; a question is nothing to be noted."""
        if verb.endswith(QUESTIONS):
            LOG.debug("control", verb=verb, **facts)
            return
        LOG.info("control", verb=verb, **facts)
        if self._audit is not None:
            # A user who may open the socket is the operator.
            self._audit.note(OPERATOR, verb, **facts)


def shown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a verb that the logs tell."""
    return {name: arguments[name] for name in SHOWN if name in arguments}


def parsed(line: bytes) -> dict[str, Any]:
    """A request."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise InvalidArgument("a request is one line with a JSON object that has a verb")
    return request


def refusal(error: LeveretError) -> dict[str, Any]:
    """An error as an answer."""
    return {"error": type(error).__name__, "message": str(error)}


async def _next_line(reader: asyncio.StreamReader) -> bytes:
    """The next request; empty at the end."""
    try:
        async with asyncio.timeout(REQUEST_S):
            return await reader.readline()
    except ValueError:
        raise InvalidArgument(f"the request is over {REQUEST_BYTES_MAX} bytes: send it in parts") from None


async def _send(writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
    """One line, taken by the other side within the time that it has."""
    writer.write(json.dumps(answer).encode() + b"\n")
    async with asyncio.timeout(REQUEST_S):
        await writer.drain()
