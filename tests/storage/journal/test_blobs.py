import errno
import json
from pathlib import Path

import pytest

from leveret.core.errors import BlobStoreFailed, DamagedJournal, DiskFull, InvalidArgument, MessageNotFound, WrongKey
from leveret.storage.blobs import Blobs, LocalBlobs, RemoteBlobs
from leveret.storage.encryption import MasterKeys
from tests.storage.journal.world import FaultyDisk

NOW_MS = 1_767_225_600_000


@pytest.fixture(params=["local", "object store"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> Blobs:
    if request.param == "local":
        return Blobs(LocalBlobs(FaultyDisk(tmp_path)))
    return Blobs(RemoteBlobs(tmp_path.as_uri(), "broker"))


def files(path: Path) -> list[Path]:
    return [file for file in path.rglob("*") if file.is_file()]


def test_a_body_comes_back(blobs: Blobs, tmp_path: Path) -> None:
    pointer = blobs.put(b"a large body", NOW_MS)
    assert blobs.get(pointer) == b"a large body"
    assert json.loads(pointer)["key"].startswith("20260101-")
    assert blobs.put(b"a large body", NOW_MS) != pointer, "keys are never used twice"
    assert len(files(tmp_path)) == 2


def test_an_empty_body(blobs: Blobs) -> None:
    assert blobs.get(blobs.put(b"", NOW_MS)) == b""


def test_a_blob_goes_after_its_settling_is_durable(blobs: Blobs, tmp_path: Path) -> None:
    early, late = blobs.put(b"early", NOW_MS), blobs.put(b"late", NOW_MS)
    blobs.release(early, 5)
    blobs.release(late, 7)
    assert blobs.delete_released(4) == 0
    assert blobs.delete_released(6) == 1
    assert blobs.get(late) == b"late"
    with pytest.raises(MessageNotFound, match=json.loads(early)["key"]):
        blobs.get(early)
    assert blobs.delete_released(7) == 1
    assert files(tmp_path) == []


def test_deleting_twice_is_no_error(blobs: Blobs) -> None:
    pointer = blobs.put(b"x", NOW_MS)
    blobs.release(pointer, 1)
    blobs.release(pointer, 1)
    assert blobs.delete_released(1) == 2


def test_orphans_are_swept(blobs: Blobs, tmp_path: Path) -> None:
    live = blobs.put(b"live", NOW_MS)
    blobs.put(b"orphan", NOW_MS)
    assert blobs.sweep(blobs.names(), [live]) == 1
    assert blobs.get(live) == b"live"
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("change", [lambda body: body[:-1], lambda body: b"?" + body[1:], lambda body: body + b"?"])
def test_a_changed_blob_is_refused(blobs: Blobs, tmp_path: Path, change: "object") -> None:
    pointer = blobs.put(b"a large body", NOW_MS)
    (file,) = files(tmp_path)
    assert callable(change)
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(DamagedJournal, match=json.loads(pointer)["key"]):
        blobs.get(pointer)


@pytest.mark.parametrize(
    "pointer",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b'{"key": "../../etc/passwd", "size": 1, "sha256": "00"}',
        b'{"key": 5, "size": 1, "sha256": "00"}',
        b'{"key": "' + b"x" * 2000 + b'"}',
    ],
)
def test_a_pointer_that_is_none_is_refused(blobs: Blobs, pointer: bytes) -> None:
    with pytest.raises(DamagedJournal, match="names none"):
        blobs.get(pointer)


def test_a_local_blob_is_synced_before_it_has_its_name(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    Blobs(LocalBlobs(disk)).put(b"body", NOW_MS)
    done = [call for call in disk.calls if call in ("write", "sync", "rename", "sync_dir")]
    assert done == ["write", "sync", "rename", "sync_dir"]


@pytest.mark.parametrize(("number", "kind"), [(errno.EIO, BlobStoreFailed), (errno.ENOSPC, DiskFull)])
def test_a_local_blob_that_cannot_be_stored_leaves_nothing(tmp_path: Path, number: int, kind: type[Exception]) -> None:
    disk = FaultyDisk(tmp_path)
    disk.failing["sync"] = number
    with pytest.raises(kind, match="was not stored"):
        Blobs(LocalBlobs(disk)).put(b"body", NOW_MS)
    assert files(tmp_path) == []


def test_half_a_local_blob_is_swept_and_what_is_not_ours_stays(tmp_path: Path) -> None:
    blobs = Blobs(LocalBlobs(FaultyDisk(tmp_path)))
    key = json.loads(blobs.put(b"body", NOW_MS))["key"]
    (tmp_path / key).rename(tmp_path / f"{key}.tmp")
    (tmp_path / "notes.txt").write_text("of the operator")
    assert blobs.sweep(blobs.names(), []) == 0
    assert [file.name for file in files(tmp_path)] == ["notes.txt"]


def test_an_encrypted_blob(tmp_path: Path) -> None:
    old, new = bytes(32), bytes(range(32))
    pointer = Blobs(LocalBlobs(FaultyDisk(tmp_path)), MasterKeys(old)).put(b"a large secret", NOW_MS)
    (file,) = files(tmp_path)
    assert b"secret" not in file.read_bytes()
    assert Blobs(LocalBlobs(FaultyDisk(tmp_path)), MasterKeys(new, old)).get(pointer) == b"a large secret"
    with pytest.raises(WrongKey, match=json.loads(pointer)["key_id"]):
        Blobs(LocalBlobs(FaultyDisk(tmp_path)), MasterKeys(new)).get(pointer)
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(WrongKey, match="tampered"):
        Blobs(LocalBlobs(FaultyDisk(tmp_path)), MasterKeys(old)).get(pointer)
    file.write_bytes(b"short")
    with pytest.raises(DamagedJournal, match=file.name):
        Blobs(LocalBlobs(FaultyDisk(tmp_path)), MasterKeys(old)).get(pointer)


def test_a_store_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="no URL of an object store"):
        RemoteBlobs("nonsense", "broker")
