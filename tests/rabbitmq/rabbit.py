"""A RabbitMQ of our own: on a free port of the loopback, in a directory of its own, ended when the tests are."""

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.rabbitmq.definitions import definitions

SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the Debian package; its wrapper in sbin wants another user
START_S_MAX = 90
STOP_S_MAX = 20
PLUGINS = "[rabbitmq_consistent_hash_exchange,rabbitmq_random_exchange]."
VHOSTS = [f"v{number}" for number in range(6)]  # so many scenarios can be played at once
CONFIG = """\
listeners.tcp.1 = 127.0.0.1:{port}
loopback_users.guest = true
log.console = false
"""


def installed() -> bool:
    """Whether there is a RabbitMQ to start."""
    return SCRIPT.exists() and shutil.which("erl") is not None


@contextmanager
def playing(directory: Path, *, traced: bool = False) -> Iterator[list[tuple[str, int, str]]]:
    """A RabbitMQ for scenarios: its host and port with each of its virtual hosts; `traced`: with their firehoses on."""
    names = ",".join(f'<<"{vhost}">>' for vhost in VHOSTS if traced)
    (directory / "advanced.config").write_text(f"[{{rabbit, [{{trace_vhosts, [{names}]}}]}}].")
    (directory / "definitions.json").write_text(json.dumps(definitions(VHOSTS)))
    with running(directory, settings=f"load_definitions = {directory}/definitions.json\n") as (host, port):
        yield [(host, port, vhost) for vhost in VHOSTS]


@contextmanager
def running(directory: Path, plugins: str = PLUGINS, settings: str = "") -> Iterator[tuple[str, int]]:
    """A started RabbitMQ: its host and port."""
    port = free_port()
    (directory / "plugins").write_text(plugins)
    (directory / "rabbitmq.conf").write_text(CONFIG.format(port=port) + settings)
    process = subprocess.Popen(
        [str(SCRIPT)],
        env=environment(directory, port),
        cwd=directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_for(process, port)
        yield "127.0.0.1", port
    finally:
        stop(process)


def environment(directory: Path, port: int) -> dict[str, str]:
    """Everything that keeps it apart from any other RabbitMQ on this machine."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "LANG": "C.UTF-8",
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(directory / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_NODENAME": f"oracle{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(directory / "mnesia"),
        "RABBITMQ_LOG_BASE": str(directory / "log"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-start_epmd false -erl_epmd_port 0 +S 1:1",
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_EPMD_PORT": str(free_port()),
    }


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(process: "subprocess.Popen[bytes]", port: int) -> None:
    """Come back when it accepts connections."""
    deadline = time.monotonic() + START_S_MAX
    while time.monotonic() < deadline:
        assert process.poll() is None, "RabbitMQ ended while it started: see its log"
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.2)
    raise AssertionError(f"RabbitMQ did not start within {START_S_MAX} s")


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End it and what it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(STOP_S_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
