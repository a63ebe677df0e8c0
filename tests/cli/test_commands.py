"""The command line, called as a function on a data directory and on a running server."""

import getpass
import io
import json
import os
import shlex
import stat
import subprocess
import sys
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret import open as open_broker
from leveret.cli import actions, cluster, main, passwords
from leveret.cli.output import as_table, cell
from leveret.operations.perform import handled
from leveret.security import passwords as stored_passwords
from leveret.security.passwords import PASSWORD_BYTES_MAX, Cost, hash_password, verify
from leveret.server import settings
from leveret.server.control import connect
from tests.server.control_world import SMALL, Served
from tests.waiting import PATIENCE_S

CHEAP = Cost(2, 1, 1)
Leveret = Callable[..., int]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An empty data directory."""
    directory = tmp_path / "data"
    directory.mkdir()
    return directory


@pytest.fixture(autouse=True)
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords are hashed quickly, and no room is reserved on the disk."""
    monkeypatch.setattr(stored_passwords, "hash_password", lambda password: hash_password(password, CHEAP))
    for name, value in SMALL.items():
        monkeypatch.setenv(settings.variable(name), str(value))


@pytest.fixture
def leveret(data: Path) -> Leveret:
    """Run one command line on the directory; give its exit code."""
    return lambda line: main.main([*shlex.split(line), "--data", str(data)])


@pytest.fixture
def served(data: Path) -> Iterator[Served]:
    """A server on the same directory."""
    running = Served(data)
    yield running
    running.stop()


OF_A_SERVER = {"alerts.firing", "alerts.history", "alerts.test"}  # a directory knows nothing of what happens
OF_KEYS = {"journal.rotate-key"}  # see test_rotation.py


def listed(data: Path, verb: str, **arguments: Any) -> Any:
    """What the broker has in the end."""
    with connect(str(data), SMALL) as operator:
        return operator.call(verb, **arguments)


def type_in(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Let commands read a password."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))


def test_users_from_the_first_to_the_last(leveret: Leveret, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert leveret("users add ada --tags administrator,monitoring --no-password") == 0
    assert leveret("users add bob --no-password") == 0
    assert leveret("users limits ada --max-connections 5 --max-channels 6") == 0
    assert leveret("users limits ada --max-connections -1") == 0
    assert leveret("users tags bob management") == 0
    assert leveret("users delete bob") == 0
    assert capsys.readouterr().out.splitlines() == [
        "user 'ada' added",
        "user 'bob' added",
        "limits of user 'ada' changed",
        "limits of user 'ada' changed",
        "tags of user 'bob' changed",
        "user 'bob' deleted",
    ]
    assert leveret("users list") == 0
    assert capsys.readouterr().out.splitlines() == [
        "name  tags                      password  max-connections  max-channels",
        "ada   administrator,monitoring  none                       6",
    ]


def test_a_running_server_is_asked_instead_of_its_directory(
    served: Served, leveret: Leveret, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leveret("users add ada --no-password") == 0
    assert leveret("permissions set ada '^ada-' '.*' ''") == 0
    assert leveret("status") == 0
    assert "pid" in capsys.readouterr().out
    assert served.access.permissions.may_enter("ada", "/")


def test_every_action_works_and_prints_json(leveret: Leveret, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [
        "users add ada --no-password",
        "vhosts add team --description ours --tags a,b --default-queue-type quorum",
        "vhosts limits team --max-queues 3",
        "vhosts trace team on",
        "permissions set ada .* .* .* --vhost team",
        "topic-permissions set ada amq.topic ^a .* --vhost team",
        """policies set p ^q '{"max-length": 3}' --priority 2 --apply-to queues --vhost team""",
        "users list",
        "vhosts list",
        "permissions list",
        "topic-permissions list --user ada",
        "policies list --vhost team",
        "topic-permissions clear ada --exchange amq.topic --vhost team",
        "policies clear p --vhost team",
        "permissions clear ada --vhost team",
        "vhosts delete team",
        "keys add ada --id AKIA",
        "keys list",
        "keys rotate AKIA",
        "keys delete ID",
        "users tags ada",
        "users password ada --no-password",
        "users limits ada --max-channels 1",
        "tokens add ada read:a* write:b --label shop --days 30",
        "tokens rotate ID --overlap-s 60",
        "tokens list --user ada",
        "tokens revoke ID",
        "users delete ada",
        "streams create clicks --partitions 2 --max-age 7D --max-bytes 1000000 --segment-bytes 100000",
        "streams list --vhost /",
        "streams show clicks",
        "groups create clicks billing",
        "groups list --stream clicks",
        "groups show clicks billing",
        "groups lag clicks billing",
        "groups reset clicks billing latest",
        "groups reset clicks billing 2026-01-31T12:00:00Z",
        "groups delete clicks billing",
        "reservations list --vhost /",
        "streams delete clicks",
        "journal seal",
        "journal rotation-status",
        "alerts set few --figure waiting_max --limit 5 --clear 2.5 --for-s 9 --severity info",
        "alerts set few --vhost / --queue q* --says hm",
        "alerts set few --off",
        "alerts set few --on",
        "alerts list",
        "alerts clear few",
        "alerts silence --name quiet --rule few --vhost / --queue q* --minutes 5 --why hm --by ada",
        "alerts silences",
        "alerts unsilence quiet",
        """alerts receiver ops '{"kind": "webhook", "url": "https://example.org/"}'""",
        "alerts receivers",
        "alerts forget ops",
    ]
    tried = set()
    ids = [""]
    for line in lines:
        assert leveret(f"{line.replace('ID', ids[-1])} --json") == 0, line
        result = json.loads(capsys.readouterr().out)
        ids += [result["id"]] if isinstance(result, dict) and "id" in result else []
        tried.add(".".join(line.split()[:2]))
    assert tried == actions.ACTIONS.keys() - OF_A_SERVER - OF_KEYS - {"reservations.release"}
    assert listed(data, "users.list") == []


def test_reservations_are_listed_and_released(leveret: Leveret, data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_broker(data) as broker:
        broker.queue("orders").send_many([b"1", b"2", b"3"])
        with broker.runtime as core:
            queue = core.topology.vhost("/").queues["orders"]
            assert list(core.reservations.reserve(queue, "spark", 0, 2, 1000, user="ada")) == []
    assert leveret("reservations list --queue orders --json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["name"], row["user"], row["messages"], row["lease_seconds"]) == ("spark", "ada", 2, None)
    assert leveret("reservations release orders spark") == 0
    assert "group 'spark' released; 2 messages of queue 'orders' wait again" in capsys.readouterr().out
    assert listed(data, "reservations.list") == []
    assert leveret("reservations release orders spark") == 1
    with open_broker(data) as broker:
        assert broker.queue("orders").stats().ready == 3


KINDS = ("parameters", "global-parameters")
"""What only tools for RabbitMQ set."""


def test_every_verb_has_a_command() -> None:
    others = {"status", "definitions.import", "definitions.export", "cluster.examine"}
    others |= {"users.put", *(f"{kind}.{verb}" for kind in KINDS for verb in ("list", "set", "clear"))}
    others |= {f"cluster.{word.name}" for word in cluster.WORDS} | {"audit.list", "audit.heads"}
    assert actions.ACTIONS.keys() | others == set(handled())


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("users delete eve", "no user 'eve': add it first"),
        ("users limits eve", "no limit is named"),
        ("permissions set eve '' '' ''", "no user 'eve'"),
        ("vhosts limits nowhere --max-queues 1", "vhost nowhere not found"),
        ("vhosts trace nowhere on", "vhost nowhere not found"),
        ("vhosts delete /", "always there"),
        ("policies set p '(' '{}'", "not a regular expression"),
        ("policies clear p", "no policy 'p'"),
        ("users add eve --tags king --no-password", "the tags are"),
        ("users list --config nowhere.toml", "cannot read the configuration file"),
        ("alerts firing", "no server looks at this directory"),
        ("alerts history", "no server looks at this directory"),
        ("alerts test ops", "no server looks at this directory"),
        ("alerts set few --figure mood --limit 1", "figure of rule 'few' is"),
        ("alerts receiver ops {}", "kind of receiver 'ops' is"),
        ("definitions import nowhere.json", "nowhere.json: No such file"),
    ],
)
def test_what_is_refused_is_one_line_and_exit_code_1(
    leveret: Leveret, line: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leveret(line) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("leveret: ")
    assert complaint in output.err


@pytest.mark.parametrize(
    "line",
    [
        "",
        "usres list",
        "users",
        "users add",
        "users add ada --no-password --password x",
        "users limits ada --max-channels many",
        "users list --dat x",
        "policies set p . nonsense",
        "policies set p . []",
    ],
)
def test_wrong_usage_is_exit_code_2(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(shlex.split(line))
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(("leveret", "usage: leveret"))


@pytest.mark.parametrize("typed", [b"lovelace\n", b"lovelace\r\n", b"lovelace", b"lovelace\nnot this\n"])
def test_a_password_comes_from_the_standard_input(
    leveret: Leveret, data: Path, monkeypatch: pytest.MonkeyPatch, typed: bytes
) -> None:
    type_in(monkeypatch, typed)
    assert leveret("users add ada --password-stdin") == 0
    assert_password(data, "lovelace")


def test_a_password_is_typed_twice(leveret: Leveret, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["lovelace", "lovelace", "byron", "bryon"])
    monkeypatch.setattr(passwords, "getpass", lambda prompt: next(answers))
    monkeypatch.setattr(sys, "stdin", Terminal())
    assert leveret("users add ada") == 0
    assert leveret("users password ada") == 1
    assert_password(data, "lovelace")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_password_in_the_command_line_works_with_a_warning(
    leveret: Leveret, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert leveret("users add ada --no-password") == 0
    assert leveret("users password ada --password lovelace") == 0
    output = capsys.readouterr()
    assert "use --password-stdin" in output.err
    assert "lovelace" not in output.err + output.out
    assert_password(data, "lovelace")


@pytest.mark.parametrize(
    ("typed", "flags", "complaint"),
    [
        (b"", "", "no terminal to type"),
        (b"\n", "--password-stdin", "the password is empty"),
        (b"short\n", "--password-stdin", "has 5 characters, the minimum is 8: choose a longer one"),
        (b"x" * (PASSWORD_BYTES_MAX + 1), "--password-stdin", "shorten it"),
    ],
)
def test_bad_passwords_are_refused(
    leveret: Leveret, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], typed: bytes, flags: str,
    complaint: str,
) -> None:  # fmt: skip
    type_in(monkeypatch, typed)
    monkeypatch.setattr(getpass, "getpass", None)
    assert leveret(f"users add ada {flags}") == 1
    assert complaint in capsys.readouterr().err


def assert_password(data: Path, password: str) -> None:
    (user,) = listed(data, "definitions.export", section="users")["objects"]
    assert verify(user["password_hash"], password)


def test_a_configuration_file_says_where_the_data_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = data.parent / "leveret.toml"
    config.write_text(f"data = '{data}'\n")
    assert main.main(["users", "add", "ada", "--no-password", "--config", str(config)]) == 0
    assert [row["name"] for row in listed(data, "users.list")] == ["ada"]


def test_the_environment_says_where_the_data_is(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERET_DATA", str(data))
    assert main.main(["users", "add", "ada", "--no-password"]) == 0
    assert [row["name"] for row in listed(data, "users.list")] == ["ada"]


def test_as_a_process_of_its_own(data: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "leveret", "users", "add", "ada", "--password-stdin", "--data", str(data)],
        input="lovelace\n",
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        timeout=PATIENCE_S,
    )
    assert (process.returncode, process.stdout, process.stderr) == (0, "user 'ada' added\n", "")
    assert_password(data, "lovelace")


def test_a_reader_who_has_seen_enough_is_no_error(data: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -m leveret definitions export --data {shlex.quote(str(data))} | true"
    process = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
        timeout=PATIENCE_S,
    )
    assert (process.returncode, process.stderr) == (0, "")


def every_parser(parser: ArgumentParser) -> Iterator[ArgumentParser]:
    """A parser and all those of its words."""
    yield parser
    for words in (each for each in parser._actions if isinstance(each, _SubParsersAction)):
        for inner in words.choices.values():
            yield from every_parser(inner)


def whole_parsers() -> Iterator[ArgumentParser]:
    """The parser of the command line, and those of each command and its words."""
    yield main.parser([])
    for name in main.COMMANDS:
        commands = next(each for each in main.parser([name])._actions if isinstance(each, _SubParsersAction))
        yield from every_parser(commands.choices[name])


@pytest.mark.parametrize("parser", [*whole_parsers()], ids=lambda parser: parser.prog)
def test_help_explains_everything(parser: ArgumentParser, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([*parser.prog.split()[1:], "--help"])
    assert ended.value.code == 0
    assert str(parser.description) in " ".join(capsys.readouterr().out.split())
    unexplained = [each.dest for each in parser._actions if not each.help and not isinstance(each, _SubParsersAction)]
    assert not unexplained


def test_cells_cannot_move_the_cursor_and_columns_are_aligned() -> None:
    rows = [{"a": "x\x1b[2J\n", "b": {"c": None}}, {"a": ["p", "q"], "b": {"c": True}}]
    assert as_table(rows, ("a", "b.c")).splitlines() == ["a           c", "x\\x1b[2J\\n", "p,q         yes"]
    assert cell({"k": 1}) == '{"k": 1}'


def test_an_export_is_for_its_owner_only(leveret: Leveret, data: Path) -> None:
    path = data.parent / "definitions.json"
    assert leveret(f"definitions export {path}") == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
