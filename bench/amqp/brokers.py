"""The brokers under test: how each is started on 127.0.0.1 with an empty directory, and reached."""

import os
import re
import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.amqp.processes import Process, free_port, started, tree

READY_S_MAX = 60
AMQP_HEADER = b"AMQP\x00\x00\x09\x01"
FRAME_HEADER_BYTES = 7
SERVE = f"{sys.executable} -m leveret serve --data {{data}} --amqp-port {{port}}"
# Not the one of /usr/sbin: that one runs as the user of the system's service, on the service's directories.
RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class NotReady(Exception):
    """The broker did not come up."""


@dataclass(frozen=True)
class Target:
    """A broker that answers."""

    host: str
    port: int
    version: str
    roots: tuple[int, ...] = ()
    """What was started; nothing if it runs on another machine."""

    def pids(self) -> list[int]:
        """Its processes."""
        return [pid for root in self.roots for pid in tree(root)]


Start = Callable[[Path], AbstractContextManager[Target]]


@dataclass(frozen=True)
class Peer:
    """A broker that can be started, or one that runs already."""

    name: str
    start: Start


@contextmanager
def start_leveret(command: str, directory: Path) -> Iterator[Target]:
    port = free_port()
    words = shlex.split(command.format(data=directory / "data", port=port))
    log = directory / "log"
    with started(words, log) as process:
        yield Target("127.0.0.1", port, wait_ready(process, port, log), (process.pid,))


@contextmanager
def start_rabbitmq(directory: Path) -> Iterator[Target]:
    """A node of its own: name, ports, directories, cookie and port mapper, nothing of the system's service."""
    port, epmd_port = free_port(), free_port()
    (directory / "plugins").write_text("[].\n")
    (directory / "environment").touch()
    settings = {
        "HOME": str(directory),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(epmd_port),
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_CONF_ENV_FILE": str(directory / "environment"),
        "RABBITMQ_CONFIG_FILE": str(directory / "none"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false",
    }
    environment = {**os.environ, **settings}
    mapper = ["epmd", "-address", "127.0.0.1", "-port", str(epmd_port)]
    log = directory / "log"
    # The port mapper is started here, because one that the node starts would outlive it.
    with started(mapper, log, environment), started([str(RABBITMQ_SERVER)], log, environment) as process:
        yield Target("127.0.0.1", port, wait_ready(process, port, log), (process.pid,))


@contextmanager
def reach(host: str, port: int, pid: int | None, directory: Path) -> Iterator[Target]:
    """A broker that somebody else started: it keeps what earlier cases left in it."""
    try:
        version = greeting(host, port)
    except OSError as error:
        raise NotReady(f"no AMQP broker on {host}:{port}: {error}") from error
    yield Target(host, port, version, () if pid is None else (pid,))


def peers(serve: str, elsewhere: list[str]) -> list[Peer]:
    """Leveret, RabbitMQ if it is installed, and those named NAME=HOST:PORT or NAME=HOST:PORT@PID."""
    found = [Peer("leveret", partial(start_leveret, serve))]
    if RABBITMQ_SERVER.exists():
        found.append(Peer("rabbitmq", start_rabbitmq))
    return found + [named(text) for text in elsewhere]


def named(text: str) -> Peer:
    match = re.fullmatch(r"(\w+)=([^:@]+):(\d+)(?:@(\d+))?", text)
    if match is None:
        raise ValueError(f"a peer is NAME=HOST:PORT or NAME=HOST:PORT@PID, not {text}")
    name, host, port, pid = match.groups()
    return Peer(name, partial(reach, host, int(port), int(pid) if pid else None))


def wait_ready(process: Process, port: int, log: Path) -> str:
    """Wait until the broker greets; give the version that it tells."""
    limit = time.monotonic() + READY_S_MAX
    while time.monotonic() < limit and process.poll() is None:
        try:
            return greeting("127.0.0.1", port)
        except OSError:
            time.sleep(0.05)
    raise NotReady(f"the broker did not come up within {READY_S_MAX} s:\n{log.read_text(errors='replace')[-2000:]}")


def greeting(host: str, port: int) -> str:
    """Say hello; give the version out of the server properties of connection.start."""
    with socket.create_connection((host, port), timeout=5) as connection:
        connection.sendall(AMQP_HEADER)
        stream = connection.makefile("rb")
        header = stream.read(FRAME_HEADER_BYTES)
        payload = stream.read(int.from_bytes(header[3:], "big"))
        stream.close()
    if not payload:
        raise ConnectionError("closed without a greeting")
    match = re.search(rb"\x07versionS(.{4})", payload, re.DOTALL)
    if match is None:
        return ""
    return payload[match.end() : match.end() + int.from_bytes(match[1], "big")].decode()
