"""An operator's side of the control socket; where no server runs, the same verbs on its data directory.

with connect("data") as operator:
    operator.call("users.list")
"""

import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from functools import partial
from typing import Any, Protocol

from leveret.core.errors import DataLocked, NotFound, PreconditionFailed
from leveret.embedded.broker import Broker, open
from leveret.ingest.sinks import staged_in
from leveret.observability.audit import Audit
from leveret.operations.context import OPERATOR, OperationContext
from leveret.operations.perform import call, error_class, shown
from leveret.operations.registry import OPERATIONS
from leveret.protocols.sqs.queue_actions import kept_details
from leveret.security.access import Access
from leveret.server.control import REQUEST_BYTES_MAX, socket_address
from leveret.storage.disk import LOCK_NAME
from leveret.storage.journal.files.meta import META_NAME

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
