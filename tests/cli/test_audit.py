"""`leveret audit`: rows of a server, of a directory without one, and files that are whole or not."""

import json
from pathlib import Path

import pytest

from leveret.cli import main
from tests.server_process import ServerProcess

Captured = pytest.CaptureFixture[str]


def leveret(line: str) -> int:
    """Run one command line."""
    return main.main(line.split())


def test_rows_of_a_running_server(asked: ServerProcess, capsys: Captured) -> None:
    data = f"--data {asked.data}"
    assert leveret(f"vhosts add listed {data}") == 0
    assert leveret(f"audit list {data}") == 0
    first, second = capsys.readouterr().out.splitlines()[1:3]
    assert first.split() == ["at", "kind", "by", "act", "outcome", "peer", "count", "about"]
    assert second.split()[1:] == ["administration", "(operator)", "vhosts.add", "done", "name=listed"]
    assert leveret(f"audit list --kind clients --limit 5 --json {data}") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert leveret("audit list --json --url " + f"http://guest:guest@127.0.0.1:{asked.ports['http']}") == 0
    assert json.loads(capsys.readouterr().out)[0]["act"] == "vhosts.add"


def test_the_files_of_a_running_server_are_compared_with_what_it_has_written(tmp_path: Path, capsys: Captured) -> None:
    with ServerProcess(tmp_path) as server:
        data = f"--data {server.data}"
        for name in ("first", "second"):
            assert leveret(f"vhosts add {name} {data}") == 0
        capsys.readouterr()
        assert leveret(f"audit verify {data}") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == ["log", "state", "rows", "since", "unchained", "torn", "head"]
        assert [line.split()[:3] for line in lines[1:]] == [
            ["audit", "whole", "2"],
            ["audit-clients", "empty", "0"],
            ["audit-refusals", "empty", "0"],
        ]
        path = server.data / "audit.jsonl"
        path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
        assert leveret(f"audit verify {data}") == 1
        assert "row 2, which the server has written, is not there" in capsys.readouterr().out
    assert leveret(f"audit verify {data}") == 0, "nobody else knows"
    assert "No server runs" in capsys.readouterr().out


def test_the_first_broken_line_is_named(tmp_path: Path, capsys: Captured) -> None:
    for name in ("first", "second", "third"):
        assert leveret(f"vhosts add {name} --data {tmp_path}") == 0, "without a server"
    assert leveret(f"audit verify --data {tmp_path}") == 0
    path = tmp_path / "audit.jsonl"
    path.write_text(path.read_text().replace("second", "another"))
    capsys.readouterr()
    assert leveret(f"audit verify --data {tmp_path}") == 1
    out = capsys.readouterr().out
    assert "audit is broken at audit.jsonl, line 3: the row before row 3 is not the one that was written." in out
    assert leveret(f"audit verify --json --data {tmp_path}") == 1
    told = json.loads(capsys.readouterr().out)
    assert told["compared_with_server"] is False
    assert told["logs"][0]["broken"].startswith("audit.jsonl, line 3")


def test_a_server_that_was_killed_goes_on_with_its_chain(tmp_path: Path, capsys: Captured) -> None:
    with ServerProcess(tmp_path) as server:
        assert leveret(f"vhosts add first --data {server.data}") == 0
        server.kill()
    assert leveret(f"audit verify --data {server.data}") == 0
    with (server.data / "audit.jsonl").open("ab") as file:
        file.write(b'{"cut')
    with ServerProcess(tmp_path) as server:
        assert leveret(f"vhosts add second --data {server.data}") == 0
        capsys.readouterr()
        assert leveret(f"audit verify --data {server.data}") == 0
        assert capsys.readouterr().out.splitlines()[1].split()[1:3] == ["whole", "2"]


def test_a_directory_that_is_not_there(tmp_path: Path, capsys: Captured) -> None:
    assert leveret(f"audit verify --data {tmp_path / 'nowhere'}") == 1
    assert "--data" in capsys.readouterr().err
