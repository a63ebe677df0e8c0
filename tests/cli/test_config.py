"""`leveret config`: options with where they come from, files that are right or wrong, and one to begin with."""

import json
import re
import tomllib
from pathlib import Path

import pytest

from leveret.cli import main
from leveret.server.settings import OPTIONS, parse

SECRETS = {name for name, option in OPTIONS.items() if option.metadata["secret"]}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("LEVERET_CONFIG", "LEVERET_URL"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "leveret.toml"
    path.write_text('amqp_port = 5673\nsegment_bytes = "1MiB"\nredis = "redis://:hush@h:6379"\n')
    return path


def test_options_tell_where_they_come_from(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEVERET_AMQP_PORT", "5674")
    monkeypatch.setenv("LEVERET_REDIS_PASSWORD", "hush")
    assert main.main(["config", "print", "--config", str(file), "--json"]) == 0
    told = capsys.readouterr().out
    assert {row["option"]: (row["value"], row["from"]) for row in json.loads(told)} == {
        "amqp_port": ("5674", "LEVERET_AMQP_PORT"),
        "segment_bytes": ("1MiB", str(file)),
        "redis": ("redis://@h:6379", str(file)),
        "redis_password": ("(secret)", "LEVERET_REDIS_PASSWORD"),
    }
    assert "hush" not in told
    assert main.main(["config", "print", "--all", "--json", "--config", str(file)]) == 0
    assert [row["option"] for row in json.loads(capsys.readouterr().out)] == list(OPTIONS)


def test_without_options_it_says_so(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["config", "print"]) == 0
    assert "--all" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("amqp_prot = 1", "amqp_port"),
        ("amqp_port = 70000", "amqp_port cannot be '70000'"),
        ("tls_key = 'k'", "tls_cert"),
        ("=", "not TOML"),
    ],
)
def test_a_wrong_file_is_refused(file: Path, line: str, complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["config", "check", str(file)]) == 0
    assert "environment: 3" in capsys.readouterr().out
    file.write_text(line)
    assert main.main(["config", "check", str(file)]) == 1
    assert complaint in capsys.readouterr().err


def test_the_sample_has_every_option_and_its_default(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["config", "sample"]) == 0
    sample = capsys.readouterr().out
    assert tomllib.loads(sample) == {}
    given = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", sample, flags=re.MULTILINE))
    assert set(given) == set(OPTIONS) - SECRETS
    assert {name: parse(OPTIONS[name], value) for name, value in given.items()} == {
        name: OPTIONS[name].default for name in given
    }
