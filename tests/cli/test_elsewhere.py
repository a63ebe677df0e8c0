"""Administration of a server by HTTP: the same commands, for administrators only."""

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from leveret.cli import main
from leveret.cli.connection import URL, connected
from leveret.client.calls import ClientCall
from leveret.core.errors import InvalidArgument
from leveret.server.control import connect
from tests.server.control_world import HASH
from tests.server_process import ServerProcess
from tests.waiting import wait_until

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def url(asked: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where the server is; nothing else says it."""
    monkeypatch.delenv(URL)
    return f"http://guest:guest@127.0.0.1:{asked.ports['http']}"


def leveret(*words: str) -> int:
    """Run one command line."""
    return main.main(list(words))


def test_users_of_a_server_elsewhere(url: str, capsys: Captured) -> None:
    assert leveret("users", "add", "ada", "--no-password", "--tags", "monitoring", "--url", url) == 0
    assert leveret("users", "list", "--url", url) == 0
    assert capsys.readouterr().out.splitlines()[0:2] == [
        "user 'ada' added",
        "name   tags           password  max-connections  max-channels",
    ]
    assert leveret("users", "delete", "nobody", "--url", url) == 1
    assert "nobody" in capsys.readouterr().err
    assert leveret("users", "delete", "ada", "--url", url) == 0


def test_the_environment_and_profiles_name_a_server(
    url: str, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(URL, url)
    assert leveret("status") == 0
    assert "pid" in capsys.readouterr().out
    monkeypatch.delenv(URL)
    profiles = tmp_path / "leveret" / "profiles.toml"
    profiles.parent.mkdir()
    profiles.write_text(f'default = "shop"\n[shop]\nurl = "{url}"\n')
    profiles.chmod(0o600)
    assert leveret("users", "list") == 0
    assert "guest" in capsys.readouterr().out
    assert leveret("users", "list", "--data", "nothing") == 1
    assert "nothing" in capsys.readouterr().err


def test_where_there_is_no_directory_the_default_port_is_asked(
    url: str, asked: ServerProcess, capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("leveret.cli.connection.FIRST_URL", url.replace("guest:guest@", ""))
    assert leveret("status") == 0
    assert "pid" in capsys.readouterr().out
    asked.stop()
    assert leveret("status") == 1
    assert "data" in capsys.readouterr().err
    asked.start()
    (tmp_path / "data").mkdir()
    assert leveret("users", "add", "ada", "--no-password") == 0
    assert leveret("users", "list", "--data", "data") == 0
    assert "ada" in capsys.readouterr().out


def test_policies_tokens_and_definitions(url: str, capsys: Captured, tmp_path: Path) -> None:
    assert leveret("policies", "set", "short", "^log", '{"max-length": 5}', "--url", url) == 0
    assert leveret("tokens", "add", "guest", "*:*", "manage", "--json", "--url", url) == 0
    token = json.loads(capsys.readouterr().out.partition("\n")[2])["token"]
    (tmp_path / "token").write_text(token)
    bare = url.replace("guest:guest@", "")
    file = tmp_path / "definitions.json"
    assert leveret("definitions", "export", str(file), "--url", bare, "--token-file", str(tmp_path / "token")) == 0
    assert [each["name"] for each in json.loads(file.read_text())["policies"]] == ["short"]
    assert leveret("definitions", "import", str(file), "--json", "--url", url) == 0
    assert leveret("status", "--url", url) == 0
    assert "pid" in capsys.readouterr().out


def test_only_administrators_may(url: str, asked: ServerProcess, capsys: Captured) -> None:
    with connect(str(asked.data)) as operator:
        operator.call("users.add", name="clerk", password_hash=HASH, tags=["monitoring"])
        narrow = operator.call("tokens.add", user="guest", scopes=["*:*"])["token"]
    as_clerk = url.replace("guest:guest", "clerk:lovelace")
    assert leveret("users", "list", "--url", as_clerk) == 1
    assert "has none of the tags administrator" in capsys.readouterr().err
    assert leveret("users", "list", "--url", url.replace("guest:guest@", ""), "--token", narrow) == 1
    assert leveret("users", "list", "--url", url.replace("guest:guest", "guest:wrong")) == 1
    assert leveret("users", "list", "--url", url.replace("guest:guest@", "")) == 0, "this machine is asked as guest"

    def refusals() -> list[dict[str, Any]]:
        texts = [path.read_text() for path in asked.data.glob("audit-refusals.jsonl")]
        return [json.loads(line) for text in texts for line in text.splitlines()]

    wait_until(lambda: any(row["by"] == "clerk" and "tags" in row["outcome"] for row in refusals()))


def test_a_server_and_a_directory_are_not_meant_together(url: str, capsys: Captured, tmp_path: Path) -> None:
    assert leveret("users", "list", "--url", url, "--data", str(tmp_path)) == 1
    assert "--data" in capsys.readouterr().err


def test_requests_that_make_no_sense_are_refused(asked: ServerProcess) -> None:
    with connected(Namespace(profile=None, url=None, token=None, token_file=None, ca_file=None)) as broker:

        def post(verb: str, body: Any) -> None:
            broker.run(ClientCall("POST", f"/operator/{verb}", lambda answer: None, body))

        for verb, body, told in (
            ("users.lst", {}, "did you mean 'users.list'"),
            ("users.list", {"colour": 1}, "wrong arguments"),
            ("users.list", [], "JSON object"),
            ("users.tags", {"name": "guest", "tags": "x" * (1 << 20)}, "bytes: send it in parts"),
        ):
            with pytest.raises(InvalidArgument, match=told):
                post(verb, body)
