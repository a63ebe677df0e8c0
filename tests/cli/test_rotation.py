"""`leveret journal rotate-key`: on a directory, through the control socket of a server, and by HTTP."""

import json
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.cli.main import main
from leveret.core.errors import WrongKey
from leveret.server.control import connect
from leveret.storage.encryption import MasterKeys
from tests.server_process import ServerProcess
from tests.storage.journal.old_store import key_file

OLD, NEW = b"o" * 32, b"n" * 32
OPTIONS: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0, "blob_bytes": 1_000, "sync": "never"}
FLAGS = ("--spare-bytes", "0", "--disk-free-min-bytes", "0", "--blob-bytes", "1000")


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The key file that commands and brokers use: the old key wrote a store."""
    found = tmp_path / "keys"
    (tmp_path / "server").mkdir()
    with leveret.open(tmp_path / "server" / "data", encryption_key_file=key_file(found, OLD), **OPTIONS) as broker:
        for number in range(20):
            broker.queue("orders").send(f"order {number}")
            broker.stream("events").send(f"event {number}")
        broker.queue("orders").send("z" * 2_000)
    key_file(found, NEW, OLD)
    monkeypatch.setenv("LEVERET_ENCRYPTION_KEY_FILE", str(found))
    for name in ("SPARE_BYTES", "DISK_FREE_MIN_BYTES"):
        monkeypatch.setenv(f"LEVERET_{name}", "0")
    return found


def check(data: Path, keys: Path) -> None:
    """Whether everything is there with the new key alone, and nothing with the old one."""
    with leveret.open(data, encryption_key_file=key_file(keys, NEW), **OPTIONS) as broker:
        bodies = [each.data.decode() for each in broker.queue("orders").browse(100)]
        assert bodies == [*(f"order {number}" for number in range(20)), "z" * 2_000]
        records = broker.stream("events").read(offset="first")
        assert [each.data.decode() for each in records] == [f"event {number}" for number in range(20)]
    with pytest.raises(WrongKey, match=MasterKeys(NEW).writing.hex()):
        leveret.open(data, encryption_key_file=key_file(keys, OLD), **OPTIONS)


def test_a_directory_that_no_server_has_open(tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "server" / "data"
    assert main(["journal", "rotation-status", "--data", str(data)]) == 0
    assert "rotate-key" in capsys.readouterr().out
    assert main(["journal", "rotate-key", "--data", str(data)]) == 0
    old, new = MasterKeys(OLD).writing.hex(), MasterKeys(NEW).writing.hex()
    assert capsys.readouterr().out.splitlines() == [
        f"everything is encrypted by key {new}",
        f"remove key {old} from the key file",
    ]
    check(data, keys)


@pytest.mark.parametrize("way", ["socket", "http"])
def test_a_server_at_work(tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str], way: str) -> None:
    with ServerProcess(tmp_path / "server", *FLAGS, "--encryption-key-file", str(keys)) as server:
        place = ["--data", str(server.data)]
        if way == "http":
            place = ["--url", f"http://guest:guest@127.0.0.1:{server.ports['http']}"]
        assert main(["journal", "rotate-key", *place, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["state"], found["removable"]) == ("done", [MasterKeys(OLD).writing.hex()])
        assert main(["journal", "rotation-status", *place]) == 0
        assert "remove key" in capsys.readouterr().out
    check(server.data, keys)


def test_a_server_that_is_killed_meanwhile_goes_on_afterwards(
    tmp_path: Path, keys: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = ServerProcess(tmp_path / "server", *FLAGS, "--encryption-key-file", str(keys))
    for _ in range(3):
        with server, connect(str(server.data)) as operator:
            operator.call("journal.rotate-key")
            server.kill()
    with server:
        assert main(["journal", "rotate-key", "--data", str(server.data)]) == 0
    assert "remove key" in capsys.readouterr().out
    check(server.data, keys)


def test_without_a_key_it_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("LEVERET_ENCRYPTION_KEY_FILE", raising=False)
    leveret.open(tmp_path / "plain", **OPTIONS).close()
    assert main(["journal", "rotate-key", "--data", str(tmp_path / "plain")]) != 0
    assert "encryption_key_file" in capsys.readouterr().err
