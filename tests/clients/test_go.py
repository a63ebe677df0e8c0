"""examples/go: a consumer in Go, built with Debian's compiler and amqp091-go, without a network."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from tests.clients.conftest import Broker, Unique
from tests.parts import AMQP_GO, GO_LIBRARIES, need_program
from tests.server_process import ServerProcess
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

SOURCE = ROOT / "examples" / "go" / "main.go"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled example."""
    need_program("go")
    need_program(str(AMQP_GO))
    folder = tmp_path_factory.mktemp("go")
    environ = {"PATH": os.environ["PATH"], "GOCACHE": str(folder / "cache"), "GOPATH": str(GO_LIBRARIES)}
    made = folder / "consumer"
    # Without modules Go takes libraries from GOPATH, and asks no server for anything.
    command = ["go", "build", "-o", str(made), str(SOURCE)]
    subprocess.run(command, env={**environ, "GO111MODULE": "off", "HOME": str(folder)}, timeout=PATIENCE_S, check=True)
    return made


@contextmanager
def consumer(program: Path, broker: Broker, queue: str) -> Iterator["subprocess.Popen[str]"]:
    """The example at work."""
    command = [str(program), "-url", broker.url, "-queue", queue]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            read_until(process, f"consuming {queue}")
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def read_until(process: "subprocess.Popen[str]", text: str) -> list[str]:
    """What the example prints, up to a line that ends with a text."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line.strip().split(" ", 2)[2])
        if lines[-1] == text:
            return lines
    raise AssertionError(f"it ended with {process.wait()} before {text!r}: {lines}")


@pytest.fixture
def channel(broker: Broker) -> Iterator[BlockingChannel]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        yield connection.channel()


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Everything that waits in a queue."""
    found = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        assert message[2] is not None
        found.append(message[2])
    return found


def test_it_acknowledges_what_is_done_and_rejects_what_fails(
    program: Path, broker: Broker, channel: BlockingChannel, unique: Unique
) -> None:
    queue = unique("go")
    channel.confirm_delivery()
    with consumer(program, broker, queue) as process:
        for body in ("one", "bad two", "three"):
            channel.basic_publish("", queue, body.encode(), mandatory=True)
        assert read_until(process, "done three") == [
            "done one",
            "rejected bad two: the message cannot be processed",
            "done three",
        ]
        process.send_signal(signal.SIGTERM)
        read_until(process, "stopped")
        assert process.wait(PATIENCE_S) == 0
    assert (bodies(channel, queue), bodies(channel, f"{queue}.dead")) == ([], [b"bad two"])
    assert channel.queue_declare(queue, passive=True).method.consumer_count == 0
    for name in (queue, f"{queue}.dead"):
        channel.queue_delete(name)


def test_it_connects_again(program: Path, tmp_path: Path, unique: Unique) -> None:
    if "BROKER" in os.environ:
        pytest.skip("the broker of BROKER is not restarted: it was not started here")
    queue = unique("go")
    with ServerProcess(tmp_path) as server:
        port = server.port
        with consumer(program, Broker("127.0.0.1", port), queue) as process:
            server.kill()
            server.start("--amqp-port", str(port))
            read_until(process, f"consuming {queue}")
            process.terminate()
            read_until(process, "stopped")
