"""Operations for the operator of a running server, by the control socket and by HTTP.

The control socket has lines of JSON:

    control.sock in the data directory, for its owner only
    >  {"verb": "users.tags", "name": "ada", "tags": ["monitoring"]}
    <  {"result": {"name": "ada", ...}}     once the change is durable
    <  {"error": "NotFound", "message": "no user 'ada': add it first"}

A user who may open the socket may read the data as well: the file system decides, and there is no login.

HTTP is for administrators elsewhere; its refusals are those of the REST API:

    POST /operator/users.tags {"name": "ada", "tags": ["monitoring"]}
    200 {"result": {"name": "ada", ...}}

An operator's side of the control socket; where no server runs, the same verbs on its data directory.

with connect("data") as operator:
    operator.call("users.list")
"""

import asyncio
import json
import os
import socket
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from leveret.core.errors import DataLocked, InvalidArgument, LeveretError, NotFound, PreconditionFailed, TooMany
from leveret.embedded.broker import Broker, open
from leveret.ingest.sinks import staged_in
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.operations.context import OPERATOR, OperationContext
from leveret.operations.perform import Run, call, error_class, perform, refusal, shown
from leveret.operations.registry import OPERATIONS
from leveret.protocols.http.fields import json_body
from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Response, json_response
from leveret.protocols.http.router import Routes
from leveret.protocols.sqs.queue_actions import kept_details
from leveret.security.access import Access
from leveret.security.authorisation import check_tag
from leveret.storage.disk import LOCK_NAME
from leveret.storage.journal.files.meta import META_NAME

SOCKET_NAME = "control.sock"
PATH_BYTES_MAX = 100  # what fits into a socket address everywhere
REQUEST_BYTES_MAX = 1 << 20  # a request is read into memory before it is looked at
REQUEST_S = 30.0  # for the next request to come, and for an answer to be taken
CONNECTIONS_MAX = 16
LAST_WORDS_S = 1.0  # for answers that are under way when the server stops
PREFIX = "/operator/"
UNKNOWN = "unknown verb"
LOG = Log("control")


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

    def __init__(self, run: Run, context: OperationContext, directory: str, audit: Audit | None = None) -> None:
        """Serve a site from the data directory that this process holds; what is changed is noted in the audit log."""
        self._audit = audit
        self._run = run
        self._context = context
        self._directory = directory
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._busy: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
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
        task = asyncio.get_running_loop().create_task(self._converse(reader, writer, len(self._tasks)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, others: int) -> None:
        """Answer until the other side has no more to ask, disconnects, or is too slow."""
        try:
            with suppress(OSError):
                if others >= CONNECTIONS_MAX:
                    await _send(writer, refusal(TooMany("too many are connected: try again in a moment")))
                else:
                    await self._answer_all(reader, writer)
        finally:
            writer.close()

    async def _answer_all(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
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
        if not OPERATIONS[verb].audited:
            LOG.debug("control", verb=verb, **facts)
            return
        LOG.info("control", verb=verb, **facts)
        if self._audit is not None:
            # A user who may open the socket is the operator.
            self._audit.note(OPERATOR, verb, **facts)


def parsed(line: bytes) -> dict[str, Any]:
    """A request."""
    try:
        request = json.loads(line)
    except (ValueError, RecursionError):
        request = None
    if not isinstance(request, dict):
        raise InvalidArgument("a request is one line with a JSON object that has a verb")
    return request


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


class RemoteControl:
    """Answers requests for verbs. Requests have their identity by then: see Auth.wrap."""

    def __init__(self, run: Run, context: OperationContext, audit: Audit) -> None:
        """Serve a site; what is changed or refused is noted in the audit log."""
        self._run = run
        self._context = context
        self._audit = audit

    def routes(self) -> Routes:
        return {("POST", PREFIX + "{verb}"): self._answer}

    async def _answer(self, request: Request) -> Response:
        """Do what a request says; the answer comes when it is durable."""
        identity, verb = request.identity, request.parameters["verb"]
        if identity is None:
            raise Refusal(401, "no user is logged in: send credentials")
        facts: dict[str, Any] = {"peer": request.peer.host}
        try:
            check_tag(identity, OPERATIONS["operator.run"].rule)
            arguments = arguments_of(request)
            facts |= shown(arguments)
            result = await perform(self._run, self._context, verb, arguments)
        except LeveretError as error:
            operation = verb if verb in OPERATIONS else UNKNOWN
            self._audit.refused(identity.user, verb, str(error), operation, type(error).__name__, **facts)
            raise
        if OPERATIONS[verb].audited:
            self._audit.note(identity.user, verb, **facts)
        return json_response({"result": result})


def arguments_of(request: Request) -> dict[str, Any]:
    """What comes with a verb; as little as the control socket takes."""
    if len(request.body) > REQUEST_BYTES_MAX:
        raise InvalidArgument(f"the request is over {REQUEST_BYTES_MAX} bytes: send it in parts")
    found = json_body(request)
    if not isinstance(found, dict):
        raise InvalidArgument("the body is a JSON object with the arguments of the verb")
    return found


ANSWER_S = 60.0
ANSWER_BYTES_MAX = 256 << 20


class Operator(Protocol):
    """The server or broker that does what an operator asks for."""

    def call(self, verb: str, **arguments: Any) -> Any:
        """The result of a verb; what is refused is raised."""


class Remote:
    """A running server."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._answers = connection.makefile("rb")

    def call(self, verb: str, **arguments: Any) -> Any:
        request = json.dumps({**arguments, "verb": verb}).encode() + b"\n"
        if len(request) > REQUEST_BYTES_MAX:
            raise PreconditionFailed(f"the request has {len(request)} bytes, the limit is {REQUEST_BYTES_MAX}")
        try:
            line = self._exchange(request)
        except TimeoutError:
            raise PreconditionFailed("the server does not answer: look at its log, then try again") from None
        if not line.endswith(b"\n"):
            raise PreconditionFailed("the server hung up: look at its log, then see whether the change was made")
        answer = json.loads(line)
        if "error" in answer:
            raise error_class(answer["error"])(answer["message"])
        return answer["result"]

    def _exchange(self, request: bytes) -> bytes:
        """Send a request and give the answer; what was said before the other side hung up, if it did."""
        with suppress(BrokenPipeError):
            self._connection.sendall(request)
        try:
            return self._answers.readline(ANSWER_BYTES_MAX)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        self._answers.close()
        self._connection.close()


class Local:
    """A data directory that no server has open."""

    def __init__(self, broker: Broker, audit: Audit, directory: str) -> None:
        """Work on an open broker; its first user is made by the server, not here."""
        self._broker = broker
        self._audit = audit
        with broker.runtime as core:
            self._context = OperationContext(
                core,
                Access(core, default_user=None),
                audit=audit,
                runtime=broker.runtime,
                staged_keys=partial(staged_in, directory),
                check_details=kept_details,
            )

    def call(self, verb: str, **arguments: Any) -> Any:
        runtime = self._broker.runtime
        with runtime:
            result = call(self._context, verb, arguments)
            frame = runtime.commit()
        runtime.wait(frame)
        if OPERATIONS[verb].audited:
            self._audit.note(OPERATOR, verb, **shown(arguments))
        return result


@contextmanager
def connect(directory: str, options: Mapping[str, Any] | None = None, store: str | None = None) -> Iterator[Operator]:
    """The server of a data directory, or the directory itself, opened with `options`, when there is none.

    What is in a database is not opened for a command: that would take it over from a server elsewhere.
    """
    check_directory(directory)
    connection = connected(directory)
    if connection is not None:
        remote = Remote(connection)
        try:
            yield remote
        finally:
            remote.close()
        return
    if store is not None or is_remote(directory):
        raise NotFound(f"no server listens in {directory}, and it has no messages: start it, or name one by --url")
    with opened(directory, options or {}) as broker, audit_of(broker, directory) as audit:
        yield Local(broker, audit, directory)


def audit_of(broker: Broker, directory: str) -> AbstractContextManager[Audit]:
    """The audit log of a directory; how large its files may be is for its server to decide, at the next start."""
    return closing(Audit(broker.runtime.clock, directory, bytes_max=sys.maxsize))


def check_directory(directory: str) -> None:
    """Refuse a directory that is something else: a slip of the pen must not make a broker of it."""
    if not os.path.isdir(directory):
        raise NotFound(
            f"there is no directory {directory}: name the data directory of the server by --data, or a server by --url"
        )
    found = os.listdir(directory)
    if found and LOCK_NAME not in found:
        raise NotFound(f"{directory} is not the data directory of a broker: name that, or an empty directory")


def is_remote(directory: str) -> bool:
    """Whether a data directory is that of a node, or of a server on PostgreSQL: there are no messages in it."""
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return LOCK_NAME in names and META_NAME not in names


def connected(directory: str) -> socket.socket | None:
    """A connection to the server; None when no server listens, though a socket may have been left behind."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(ANSWER_S)
    try:
        with socket_address(directory) as address:
            connection.connect(address)
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def opened(directory: str, options: Mapping[str, Any]) -> Broker:
    """The broker of a directory."""
    try:
        return open(directory, **{**options, "on_failure": "raise"})
    except DataLocked:
        raise DataLocked(
            f"{directory} is open in a process that does not listen to commands: try again if it is a server that has "
            "just started, or stop it"
        ) from None
