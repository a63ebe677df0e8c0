"""Which broker a command is about: the server of a data directory, the directory itself, or a server elsewhere."""

import os
import socket
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from urllib.parse import urlsplit

from leveret.cli import connection
from leveret.cli.parser import argument
from leveret.client.broker import RemoteBroker
from leveret.client.calls import ClientCall
from leveret.core.errors import InvalidArgument
from leveret.operations.registry import OPERATIONS
from leveret.server.control import PREFIX, Operator, connect
from leveret.server.settings import broker_options, flag, server_options, variable

REMOTE = "a server by HTTP"
ANSWER_S = 0.5  # in which a server on this machine accepts a connection

DIRECTORY = (
    argument(flag("data"), metavar="DIR", help=f"data directory of the server; default: ${variable('data')}, or data"),
    argument(
        "--config", metavar="FILE", help="configuration file of the server; says where the data is and how to open it"
    ),
)


def add_flags(parser: ArgumentParser) -> None:
    """The flags that say where the data is, or the server."""
    for each in DIRECTORY:
        each(parser)
    connection.add_flags(parser, vhost=False, title=REMOTE, default=f"default: ${connection.URL}, the profile")


def operator(given: Namespace) -> AbstractContextManager[Operator]:
    """The server or broker that does what the command says.

    A flag decides; else a server that the environment or a profile names; else the data directory, if it exists; else
    the server at the default port, if it answers.
    """
    in_directory = given.data is not None or given.config is not None
    if in_directory and (given.url is not None or given.profile is not None):
        raise InvalidArgument("name a server by --url or --profile, or a directory by --data or --config")
    if not in_directory and connection.names_server(given):
        return remote_server(given)
    flags = {} if given.data is None else {"data": given.data}
    options = server_options(flags, os.environ, given.config)
    if not (in_directory or options.store or os.path.exists(options.data)) and answers(connection.FIRST_URL):
        return remote_server(given)
    return connect(options.data, broker_options(options), options.store)


def answers(url: str) -> bool:
    """Whether a server accepts connections."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or 0), ANSWER_S).close()
    except OSError:
        return False
    return True


@contextmanager
def remote_server(given: Namespace) -> Iterator[Operator]:
    """A server that is asked by HTTP."""
    with connection.connected(given, vhost=False) as broker:
        yield RemoteServer(broker)


class RemoteServer:
    """A server that is asked by HTTP; a change whose answer is lost is not repeated."""

    def __init__(self, broker: RemoteBroker) -> None:
        self._broker = broker

    def call(self, verb: str, **arguments: Any) -> Any:
        asked = ClientCall(
            "POST", PREFIX + verb, lambda answer: answer.json()["result"], arguments, again=OPERATIONS[verb].idempotent
        )
        return self._broker.run(asked)
