"""Which broker a command is about: the running server of a data directory, or the directory itself."""

import os
from argparse import ArgumentParser, Namespace
from contextlib import AbstractContextManager

from leveret.server.control_client import Operator, connect
from leveret.server.settings import broker_options, flag, server_options, variable


def add_flags(parser: ArgumentParser) -> None:
    """The flags that say where the data is."""
    parser.add_argument(
        flag("data"), metavar="DIR", help=f"data directory of the server; default: ${variable('data')}, or data"
    )
    parser.add_argument(
        "--config", metavar="FILE", help="configuration file of the server; says where the data is and how to open it"
    )


def operator(given: Namespace) -> AbstractContextManager[Operator]:
    """Whoever does what the command says."""
    flags = {} if given.data is None else {"data": given.data}
    options = server_options(flags, os.environ, given.config)
    return connect(options.data, broker_options(options))
