"""`leveret serve`: run a server until it is told to stop."""

import os
import sys
from argparse import SUPPRESS, ArgumentParser, BooleanOptionalAction, Namespace
from dataclasses import Field
from typing import Any

from leveret.cli.parser import Command
from leveret.config import ServerOptions
from leveret.core.errors import InvalidArgument, LeveretError
from leveret.server.addresses import exit_code
from leveret.server.settings import OPTIONS, RENAMED, choices, flag, is_switch, server_options, shown

EXTRA = {"psycopg", "redis"}
"""Modules that the extra `cluster` brings."""
GROUPS = {
    "who is heard, and where": "host amqp amqps http https sqs proxy tls metrics",
    "logins": "plain default password auth oauth ldap",
    "messages": "data store sync interval message blob blobs archive encryption salvage disk spare",
    "the log": "segment cache checkpoint history",
    "a node of a cluster": "cluster node etcd announce redis",
    "limits": "memory connections half handshake heartbeat frame channels consumer drain",
    "logs, traces and alerts": "log audit tracing alerts",
    "Spark": "staging sink reports",
}
"""The order of the help text: by the first words of options."""
EVERY_OPTION = """\
Each option is also a variable (LEVERET_AMQP_PORT) and a key of the file
(amqp_port). Secrets are only that: LEVERET_CLUSTER_SECRET,
LEVERET_CLUSTER_SECRET_PREVIOUS, LEVERET_ETCD_PASSWORD,
LEVERET_REDIS_PASSWORD, LEVERET_OAUTH_CLIENT_SECRET,
LEVERET_LDAP_BIND_PASSWORD, LEVERET_AUDIT_FORWARD_AUTHORIZATION
and LEVERET_DEFAULT_PASSWORD."""


def configure(parser: ArgumentParser) -> None:
    """A flag for every option that is not secret."""
    parser.usage = "leveret serve [--config FILE] [OPTION ...]"
    parser.epilog = EVERY_OPTION
    parser.add_argument("--config", metavar="FILE", help="TOML file with options; default: $LEVERET_CONFIG")
    for title, words in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, option in ((name, OPTIONS[name]) for word in words.split() for name in names_of(word)):
            group.add_argument(flag(name), dest=name, default=SUPPRESS, **explained(option))
    for old, name in RENAMED.items():
        parser.add_argument(flag(old), dest=name, default=SUPPRESS, help=SUPPRESS)


def names_of(word: str) -> list[str]:
    """The options that begin with a word and may be flags."""
    return [name for name in OPTIONS if name.partition("_")[0] == word and not OPTIONS[name].metadata["secret"]]


def explained(option: "Field[Any]") -> dict[str, Any]:
    """How a flag is shown, and what it does."""
    words = option.metadata["help"]
    told = words if "default: " in words else f"{words}; default: {shown(option)}"
    if is_switch(option):
        return {"help": told.replace("%", "%%"), "action": BooleanOptionalAction}
    metavar = "|".join(choices(option)) or option.name.rsplit("_", 1)[-1].upper()
    return {"help": told.replace("%", "%%"), "metavar": metavar}


def run(given: Namespace) -> int:
    """Serve; gives the exit code."""
    # Not above: the other commands need neither an event loop nor the protocol.
    from leveret.server.memory import map_large_blocks
    from leveret.server.process import serve

    flags = {name: value for name, value in vars(given).items() if name in OPTIONS}
    try:
        options = server_options(flags, os.environ, given.config)
        map_large_blocks()
        return serve(options) if options.cluster is None else run_node(options)
    except LeveretError as error:
        print(f"leveret: {error}", file=sys.stderr)
        return exit_code(error)


def run_node(options: ServerOptions) -> int:
    """Serve as a node; only that needs what speaks with PostgreSQL."""
    try:
        from leveret.server.clustered import serve_node
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in EXTRA:
            raise
        raise InvalidArgument("a node of a cluster needs libraries: pip install 'leveret[cluster]'") from None
    return serve_node(options)


COMMAND = Command((configure,), run)
