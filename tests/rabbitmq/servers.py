"""Servers of Leveret that start with the same definitions as the RabbitMQ that they are compared with."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.rabbitmq.definitions import definitions
from tests.rabbitmq.transcripts import Address
from tests.server_process import ServerProcess

PLAYERS = 8  # most of the time passes with waiting


@contextmanager
def running(directory: Path) -> Iterator[list[Address]]:
    """Started servers: host, port and virtual host of each."""
    wanted = directory / "definitions.json"
    wanted.write_text(json.dumps(definitions("/")))
    with ExitStack() as stack:
        servers = [stack.enter_context(server(directory / str(number), wanted)) for number in range(PLAYERS)]
        yield [("127.0.0.1", server.port, "/") for server in servers]


def server(folder: Path, wanted: Path) -> ServerProcess:
    """A server that knows the definitions; it is not started yet."""
    made = ServerProcess(folder)
    made.data.mkdir(parents=True)
    command = [sys.executable, "-m", "leveret", "definitions", "import", str(wanted), "--data", str(made.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "skipped " not in done.stdout.partition("bindings")[2], done.stdout
    return made
