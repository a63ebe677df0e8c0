"""`leveret exchanges`, `bindings`, `connections`, `channels` and `consumers` on a server at work."""

import io
import json
import os
import pty
import sys
from collections.abc import Iterator

import pika
import pytest

from leveret.cli import main
from tests.server_process import ServerProcess


class Told:
    """What a command prints."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        assert main.main(words) == code
        output = self._capsys.readouterr()
        return output.err if code else output.out


@pytest.fixture
def told(asked: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(capsys)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    """The other end of the terminal that commands read from."""
    ours, theirs = pty.openpty()
    with open(ours, "w") as keyboard, open(theirs) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        yield keyboard


def test_exchanges_are_made_listed_and_deleted(told: Told) -> None:
    assert told("exchanges", "declare", "a/b c", "topic", "--transient") == "exchange 'a/b c' is there\n"
    row = next(line for line in told("exchanges", "list").splitlines() if "a/b c" in line)
    assert row.split() == ["/", "a/b", "c", "topic"]
    told("queues", "declare", "jobs")
    told("queues", "bind", "jobs", "a/b c", "x.#")
    bound = json.loads(told("bindings", "list", "--vhost", "/", "--json"))
    assert [each["routing_key"] for each in bound if each["source"] == "a/b c"] == ["x.#"]
    assert "in use" in told("exchanges", "delete", "a/b c", code=1)
    assert told("exchanges", "delete", "a/b c", "--force") == "exchange 'a/b c' deleted\n"
    assert "a/b c" not in told("exchanges", "list")
    assert "a/b c" not in told("bindings", "list")
    told("queues", "delete", "jobs")


def test_what_does_not_exist_is_an_error(told: Told) -> None:
    assert told("exchanges", "list", "--vhost", "nowhere", code=1).startswith("leveret: ")
    assert told("connections", "close", "nothing", code=1).startswith("leveret: ")
    assert told("exchanges", "declare", "odd", "x-nothing", code=1).startswith("leveret: ")


def test_connections_with_channels_and_consumers_are_listed_and_closed(told: Told, asked: ServerProcess) -> None:
    parameters = pika.URLParameters(asked.url)
    parameters.client_properties = {"connection_name": "the shop"}
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=7)
    channel.queue_declare("jobs", durable=True)
    tag = channel.basic_consume("jobs", lambda *_: None)
    [row] = json.loads(told("connections", "list", "--json"))
    assert "the shop" in told("connections", "list")
    assert [each["prefetch_count"] for each in json.loads(told("channels", "list", "--json"))] == [7]
    assert tag in told("consumers", "list")
    assert told("connections", "close", row["name"]) == f"connection {row['name']!r} closed\n"
    with pytest.raises(pika.exceptions.ConnectionClosed):
        connection.process_data_events(time_limit=None)
    assert told("connections", "list").count("\n") == 1
    told("queues", "delete", "jobs")


def test_a_terminal_is_asked_before_something_is_lost(told: Told, terminal: io.TextIOWrapper) -> None:
    told("queues", "declare", "jobs")
    for answer, code in (("\n", 1), ("no\n", 1), ("y\n", 0)):
        terminal.write(answer)
        terminal.flush()
        said = told("queues", "delete", "jobs", code=code)
        assert said == ("queue 'jobs' deleted with 0 messages\n" if code == 0 else f"{QUESTION}nothing was changed\n")


def test_scripts_are_not_asked(told: Told, terminal: io.TextIOWrapper) -> None:
    told("queues", "declare", "jobs")
    assert told("queues", "purge", "jobs", "--yes") == "0 messages removed from queue 'jobs'\n"
    told("users", "add", "ada", "--no-password", "--url", os.environ["LEVERET_URL"])
    terminal.write("n\n")
    terminal.flush()
    words = ("users", "delete", "ada", "--url", os.environ["LEVERET_URL"])
    assert told(*words, code=1).startswith("delete user 'ada'? [y/N] ")
    assert told(*words, "--yes") == "user 'ada' deleted\n"


QUESTION = "delete queue 'jobs'? [y/N] "
