"""Whom commands ask: flags, environment, profiles."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from leveret.cli import connection
from leveret.cli.connection import Profile
from leveret.core.errors import InvalidArgument, NotFound

TEXT = """
default = "shop"

[shop]
url = "https://mq.example:15671"
token = "lvk_shop"
vhost = "orders"
ca_file = "ca.pem"

[lab]
url = "http://user:word@lab.example:15672"
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home in which there is a file of profiles."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in (connection.URL, connection.TOKEN, connection.PROFILE):
        monkeypatch.delenv(name, raising=False)
    write(tmp_path, TEXT)
    return tmp_path


def write(home: Path, text: str, mode: int = 0o600) -> Path:
    """The file of profiles."""
    path = home / "leveret" / "profiles.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def given(*words: str) -> Namespace:
    """What the command line says."""
    parser = ArgumentParser()
    connection.add_flags(parser)
    return parser.parse_args(words)


def target(*words: str) -> tuple[str | None, str | None, str | None]:
    """Whom these words ask."""
    found = connection.target(given(*words))
    return found.url, found.token, found.vhost


def test_a_profile_says_everything(home: Path) -> None:
    assert target() == ("https://mq.example:15671", "lvk_shop", "orders")
    assert target("--profile", "lab") == ("http://user:word@lab.example:15672", None, None)
    assert connection.target(given()).ca_file == str(home / "leveret" / "ca.pem")


def test_flags_win_over_the_environment_and_that_over_profiles(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(connection.PROFILE, "lab")
    assert target()[0] == "http://user:word@lab.example:15672"
    monkeypatch.setenv(connection.URL, "http://environment")
    monkeypatch.setenv(connection.TOKEN, "of-environment")
    assert target("--vhost", "v") == ("http://environment", "of-environment", "v")
    (tmp_path / "token").write_text("of-file\n")
    assert target("--url", "http://flag", "--token-file", str(tmp_path / "token"))[:2] == ("http://flag", "of-file")


def test_the_token_of_a_profile_goes_to_its_own_server_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert target("--url", "http://elsewhere")[1] is None
    monkeypatch.setenv(connection.URL, "http://elsewhere")
    assert target()[1] is None


def test_a_token_on_the_command_line_is_warned_of_and_not_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert target("--token", "lvk_seen")[1] == "lvk_seen"
    told = capsys.readouterr().err
    assert "--token-file" in told
    assert "lvk_seen" not in told
    assert "lvk_shop" not in repr(connection.target(given()))


def test_a_file_that_others_can_read_is_refused(home: Path) -> None:
    for mode in (0o640, 0o604, 0o620):
        path = write(home, TEXT, mode)
        with pytest.raises(InvalidArgument, match=f"chmod 600 {path}"):
            target()


@pytest.mark.parametrize(
    "text", ["[shop]\ncolour = 'lvk_secret'", "[shop]\ntoken = 5", "[shop\ntoken = 'lvk_secret'", "\xff" * 1_100_000]
)
def test_a_file_that_makes_no_sense_is_refused_without_its_secrets(home: Path, text: str) -> None:
    write(home, text)
    with pytest.raises(InvalidArgument) as refused:
        target("--profile", "shop")
    assert "lvk_secret" not in str(refused.value)


def test_a_profile_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFound, match="no profile 'hop': it has lab, shop"):
        target("--profile", "hop")


def test_without_a_file_the_server_of_this_machine_is_asked(home: Path) -> None:
    (home / "leveret" / "profiles.toml").unlink()
    assert connection.target(given()) == Profile()
    with connection.connected(given()) as broker:
        assert repr(broker) == "<RemoteBroker http://127.0.0.1:15672>"
    assert connection.path_of({"HOME": "/h"}) == Path("/h/.config/leveret/profiles.toml")


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("http://127.0.0.1:15672", "http://guest:guest@127.0.0.1:15672"),
        ("https://localhost:15671", "https://guest:guest@localhost:15671"),
        ("http://[::1]:15672", "http://guest:guest@[::1]:15672"),
        ("http://ada:word@127.0.0.1:15672", "http://ada:word@127.0.0.1:15672"),
        ("http://mq.example:15672", "http://mq.example:15672"),
        ("http://127.0.0.1.example:15672", "http://127.0.0.1.example:15672"),
    ],
)
def test_only_servers_of_this_machine_are_asked_as_the_first_user(url: str, asked: str) -> None:
    assert connection.as_first_user(url) == asked


def test_an_empty_file_is_no_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(InvalidArgument, match="holds no token"):
        target("--token-file", str(tmp_path / "token"))
