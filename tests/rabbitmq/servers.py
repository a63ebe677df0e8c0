"""A server of Leveret that starts with the same definitions as the RabbitMQ that it is compared with."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.rabbitmq.definitions import definitions
from tests.rabbitmq.transcripts import Address
from tests.server_process import ServerProcess

VHOSTS = [f"v{number}" for number in range(12)]  # so many scenarios are played at once: most of the time is waiting


@contextmanager
def running(directory: Path) -> Iterator[list[Address]]:
    """A started server: its host and port with each of its virtual hosts."""
    wanted = directory / "definitions.json"
    wanted.write_text(json.dumps(definitions(VHOSTS)))
    server = ServerProcess(directory)
    server.data.mkdir()
    command = [sys.executable, "-m", "leveret", "definitions", "import", str(wanted), "--data", str(server.data)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "skipped " not in done.stdout.partition("bindings")[2], done.stdout
    with server:
        yield [("127.0.0.1", server.port, vhost) for vhost in VHOSTS]
