"""The command line tools of librabbitmq, the client library in C."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.clients.conftest import Broker, Unique
from tests.parts import need_program
from tests.waiting import PATIENCE_S


class Tools:
    """Runs amqp-* programs against one broker."""

    def __init__(self, broker: Broker) -> None:
        self.options = [f"--server={broker.host}", f"--port={broker.port}", "--username=guest", "--password=guest"]

    def run(self, name: str, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program to its end; what it says is in the result."""
        command = [f"amqp-{name}", *self.options, *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def succeed(self, name: str, *arguments: str, text: str = "") -> str:
        """Run a program that must succeed; its output."""
        done = self.run(name, *arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def tools(broker: Broker) -> Tools:
    need_program("amqp-publish")
    return Tools(broker)


@pytest.fixture
def queue(tools: Tools, unique: Unique) -> Iterator[str]:
    name = unique("tools")
    assert tools.succeed("declare-queue", f"--queue={name}", "--durable").strip() == name
    yield name
    tools.run("delete-queue", f"--queue={name}")


def test_publish_and_get(tools: Tools, queue: str) -> None:
    tools.succeed("publish", f"--routing-key={queue}", "--persistent", "--content-type=text/plain", text="hello")
    assert tools.succeed("get", f"--queue={queue}") == "hello"
    assert tools.run("get", f"--queue={queue}").returncode == 2


def test_consume_runs_a_program_per_message(tools: Tools, queue: str) -> None:
    lines = "".join(f"line {number}\n" for number in range(5))
    tools.succeed("publish", f"--routing-key={queue}", "--line-buffered", text=lines)
    assert tools.succeed("consume", f"--queue={queue}", "--count=5", "--prefetch-count=2", "cat") == lines


def test_consume_declares_and_binds_a_queue_of_its_own(tools: Tools, unique: Unique) -> None:
    key = unique("events")
    command = ["amqp-consume", *tools.options, "--exchange=amq.topic", f"--routing-key={key}.#", "--count=1", "cat"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as consumer:
        # It does not say when it has bound its queue: what is published before that is lost.
        while consumer.poll() is None:
            tools.succeed("publish", "--exchange=amq.topic", f"--routing-key={key}.a.b", text="event")
        output, errors = consumer.communicate()
    assert output == "event"
    assert errors.startswith("Server provided queue name: amq.gen-")


def test_delete_says_how_many_messages_were_lost(tools: Tools, queue: str) -> None:
    tools.succeed("publish", f"--routing-key={queue}", text="x")
    assert tools.run("delete-queue", f"--queue={queue}", "--if-empty").returncode != 0
    assert tools.succeed("delete-queue", f"--queue={queue}").strip() == "1"


def test_errors_reach_the_user(tools: Tools, unique: Unique) -> None:
    name = unique("missing")
    failed = tools.run("get", f"--queue={name}")
    assert failed.returncode == 1
    assert f"NOT_FOUND - no queue '{name}' in vhost '/'" in failed.stderr
