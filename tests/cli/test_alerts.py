"""`leveret alerts` against a server at work: what is wrong, what happened, and a receiver that is tried out."""

import io
import sys
import time
from collections.abc import Iterator

import pytest

from leveret.cli import main
from tests.observability.alerting.sinks import WebSink
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("server"), "--alerts-every-s", "0.1") as running:
        yield running


class Commands:
    """Runs commands on a server."""

    def __init__(self, server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> None:
        self._data = str(server.data)
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> str:
        """What a command prints."""
        assert main.main(["alerts", *words, "--data", self._data]) == code
        output = self._capsys.readouterr()
        return output.err if code else output.out

    def until(self, text: str, *words: str) -> list[str]:
        """The words of the line with a text, once there is one."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            for line in self(*words).splitlines():
                if text in line:
                    return line.split()
        raise AssertionError(f"there is no {text!r} in {self(*words)}")


@pytest.fixture
def alerts(server: ServerProcess, capsys: pytest.CaptureFixture[str]) -> Commands:
    return Commands(server, capsys)


def test_what_is_wrong_is_shown_with_its_history(server: ServerProcess, alerts: Commands) -> None:
    with server.client() as broker:
        queue = broker.queue("orders")
        queue.send_many([b""] * 3)
        alerts("set", "few", "--figure", "waiting_max", "--limit", "2", "--severity", "critical")
        row = alerts.until("few", "firing")
        assert row[:8] == ["critical", "firing", "few", "/", "orders", "3", "2", "messages"]
        alerts("silence", "--name", "quiet", "--why", "we know", "--queue", "orders")
        assert alerts.until("few", "firing")[-1] == "quiet"
        queue.purge()
    assert alerts.until("resolved", "history", "--limit", "10")[2:5] == ["few", "/", "orders"]
    alerts("unsilence", "quiet")
    alerts("clear", "few")


def test_a_receiver_is_made_from_the_input_and_tried(alerts: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    with WebSink() as sink:
        given = f'{{"kind": "slack", "url": "{sink.url}", "rules": ["nothing"]}}'
        monkeypatch.setattr(sys, "stdin", io.StringIO(given))
        assert alerts("receiver", "ops", "-") == "receiver 'ops' set\n"
        assert alerts("test", "ops") == "receiver 'ops' took the test\n"
        assert "[TEST]" in sink.next().body["text"]
        assert "s3cret" not in alerts("receivers")
    assert "cannot be reached" in alerts("test", "ops", code=1)
    alerts("forget", "ops")
    assert "no alert receiver 'ops'" in alerts("test", "ops", code=1)
