"""The doctor on directories that are sound, damaged, torn, in use or something else."""

import hashlib
import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.cli import main
from leveret.cli.doctor.command import OLD_MS, advice
from leveret.cli.doctor.examination import DoctorReport, examine, kind_of
from leveret.storage.options import JournalOptions
from tests.server.certificates import Authority

SMALL: dict[str, Any] = {"spare_bytes": 0, "disk_free_min_bytes": 0, "segment_bytes": 1 << 20, "blob_bytes": 200_000}
BODY = b"x" * 50_000
SLOW = 15  # so many that most of the first segment lives: no housekeeper moves them while a machine is slow


@pytest.fixture(autouse=True)
def plain_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the environment says where the data is."""
    for name in [name for name in os.environ if name.startswith("LEVERET_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with a log of a few segments, a stream and a large body."""
    path = tmp_path / "data"
    with leveret.open(path, **SMALL) as broker:
        broker.queue("slow").send_many([BODY] * SLOW)
        for _ in range(14):
            broker.queue("busy").send_many([BODY] * 5)
        broker.queue("busy").send(b"y" * 300_000)
        stream = broker.stream("events")
        stream.send_many([b"record"] * 100)
        busy = broker.queue("busy")
        busy.ack_many(busy.receive(60))
    return path


def found(data: Path, **options: Any) -> DoctorReport:
    """What the doctor finds."""
    return examine(data, JournalOptions(), **options)


def fingerprint(data: Path) -> dict[str, str]:
    """Every byte of a directory."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in data.rglob("*") if path.is_file()}


def oldest(data: Path) -> Path:
    """The oldest segment."""
    return min(data.glob("seg-*.log"))


def test_a_sound_directory_is_explained(data: Path) -> None:
    before = fingerprint(data)
    seen = found(data)
    assert fingerprint(data) == before
    assert (seen.sound, seen.damage, seen.holder) == (True, [], None)
    assert (seen.log.queues, seen.log.ready, seen.log.blobs, seen.log.orphans) == (3, SLOW + 11, 1, 0)
    assert [(each.queue, each.live) for each in seen.log.holders if each.segment == seen.log.segments[0].segment] == [
        ("slow", SLOW)
    ]
    assert [(each.name, each.records, each.first) for each in seen.streams] == [("events", 100, 0)]
    assert advice(seen) == ["nothing needs to be done"]
    assert sum(each.live for each in seen.log.segments) == SLOW + 11
    assert None not in [each.begun_ms for each in seen.log.segments]


def test_a_report_and_json_say_the_same(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["doctor", str(data)]) == 0
    text = capsys.readouterr().out
    assert "Who holds the oldest segments:" in text
    assert "- nothing needs to be done" in text
    assert main.main(["doctor", str(data), "--json", "--quick"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["sound"], told["checked"], told["log"]["ready"]) == (True, False, SLOW + 11)


def test_every_byte_is_read_and_progress_hears_of_it(data: Path) -> None:
    read: list[int] = []
    found(data, progress=read.append)
    assert sum(read) >= sum(path.stat().st_size for path in data.glob("seg-*.log"))


def test_a_damaged_frame_is_found_where_it_is(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with oldest(data).open("r+b") as file:
        file.seek(200)
        file.write(b"\xff\xff")
    seen = found(data)
    assert [(each.name, each.offset) for each in seen.damage] == [(oldest(data).name, 64)]
    assert "--salvage" in advice(seen)[0]
    assert main.main(["doctor", str(data)]) == 1
    assert oldest(data).name in capsys.readouterr().out


def test_a_torn_end_is_told_from_damage(data: Path) -> None:
    last = max(data.glob("seg-*.log"))
    with last.open("ab") as file:
        file.write(b"LFRM and then the power went")
    seen = found(data)
    assert seen.log.torn_bytes == 28
    assert seen.sound
    assert advice(seen) == ["28 B at the end were being written at a crash: the next start cuts them, nothing is lost"]
    assert last.read_bytes().endswith(b"went")


def test_a_missing_segment_says_why_a_server_would_not_start(data: Path) -> None:
    with leveret.open(data, **SMALL) as broker:
        broker.queue("slow").send(b"after")
    oldest(data).unlink()
    seen = found(data)
    assert "is missing" in seen.log.trouble
    assert advice(seen)[0].startswith("a server does not start on this")
    assert not seen.sound


def test_orphans_leftovers_and_lost_bodies_are_found(data: Path) -> None:
    (data / "blobs" / f"20260101-{'a' * 32}").write_bytes(b"12345")
    (data / "META.tmp").write_bytes(b"")
    assert advice(found(data)) == [
        "1 large bodies (5 B) belong to no message: the next start removes them",
        "files that end in .tmp were being written at a crash: the next start removes them",
    ]
    for path in (data / "blobs").iterdir():
        path.unlink()
    assert "1 large bodies are missing: restore the directory blobs from a backup" in advice(found(data))


def test_a_damaged_stream_is_found(data: Path) -> None:
    segment = next(data.glob("streams/*/0/stream-*.log"))
    with segment.open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\xff\xff")
    (stream,) = found(data).streams
    assert stream.trouble or stream.records < 100


def test_a_stream_without_a_queue_is_told(data: Path) -> None:
    (data / "streams" / "999" / "0").mkdir(parents=True)
    assert "there are directories of streams that are deleted: the next start removes them" in advice(found(data))


def test_an_old_segment_names_who_holds_it(data: Path) -> None:
    seen = found(data)
    seen.examined_ms += 3 * OLD_MS
    assert f"3 d old and held by queue 'slow' with {SLOW} messages: let its consumers work" in advice(seen)[0]
    seen.log.holders[0].paused = True
    assert "resume" in advice(seen)[0]


def test_a_directory_in_use_is_told(data: Path) -> None:
    with leveret.open(data, **SMALL):
        seen = found(data)
        assert seen.holder == os.getpid()
    assert found(data).holder is None


def test_encrypted_data_without_its_key_is_explained(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("2" * 64)
    os.chmod(tmp_path / "keys", 0o600)
    with leveret.open(tmp_path / "data", encryption_key_file=str(tmp_path / "keys"), **SMALL) as broker:
        broker.queue("secret").send(b"x")
    seen = found(tmp_path / "data")
    assert seen.log.trouble
    assert seen.damage == []


@pytest.mark.parametrize("name", ["", "missing"])
def test_a_directory_that_is_none_of_ours_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["doctor", str(tmp_path / name)]) == 1
    assert "data directory" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("seg-00000000000000000001.log", "log"),
        ("seg-1.log", "others"),
        ("streams/3/0/stream-00000000000000000000.log", "streams"),
        ("staging/abc.part.1", "staged parts"),
        ("blobs/x.tmp", "leftovers"),
        ("SPARE", "spare room"),
        ("somebody/elses", "others"),
    ],
)
def test_files_are_of_a_kind(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize(
    ("hours", "advice"),
    [(48, "nothing needs to be done"), (2, "expires in 2"), (-1, "has expired: put a new one there")],
)
def test_revocation_lists_that_expire(
    hours: int,
    advice: str,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = Authority(tmp_path)
    crl = authority.revoke(ends=timedelta(hours=hours, minutes=1), age=timedelta(days=3))
    options = {"TLS_CERT": authority.cert, "TLS_CLIENT_CA": authority.cert, "TLS_CRL": crl}
    for name, path in options.items():
        monkeypatch.setenv(f"LEVERET_{name}", str(path))
    assert main.main(["doctor", str(data), "--quick", "--json"]) == 0
    assert any(advice in sentence for sentence in json.loads(capsys.readouterr().out)["advice"])


def test_a_revocation_list_that_is_none(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cert = str(Authority(tmp_path).cert)
    for name in ("TLS_CERT", "TLS_CLIENT_CA", "TLS_CRL"):
        monkeypatch.setenv(f"LEVERET_{name}", cert)
    assert main.main(["doctor", str(data), "--quick"]) == 0
    assert "there is no revocation list in" in capsys.readouterr().out
