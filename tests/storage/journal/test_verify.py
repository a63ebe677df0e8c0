"""A full check finds every changed bit, and nothing in a directory that is as it was left."""

from pathlib import Path
from random import Random

import pytest

from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.files.recovery import verify
from tests.storage.journal.world import World


@pytest.mark.parametrize("keys", [MasterKeys(), MasterKeys(b"k" * 32)], ids=["plain", "encrypted"])
@pytest.mark.parametrize("leave", ["close", "kill"])
def test_every_changed_bit_is_found(tmp_path: Path, keys: MasterKeys, leave: str) -> None:
    world = World(tmp_path, segment_bytes=1024, keys=keys)
    for number in range(20):
        world.state.settle(1, world.durably(b"message %d" % number * 10))
        world.durably(b"kept %d" % number)
    while world.store.compact():
        pass
    getattr(world, leave)()
    assert verify(Disk(tmp_path)) == []
    rng = Random(1)
    files = [path for path in sorted(tmp_path.iterdir()) if path.is_file() and path.name != "LOCK"]
    assert len(files) > 3
    for path in files:
        data = path.read_bytes()
        for _ in range(40):
            changed = bytearray(data)
            at = rng.randrange(len(data))
            changed[at] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            found = verify(Disk(tmp_path))
            assert [damage.name for damage in found] == [path.name], f"{path.name} at {at}: {found}"
        path.write_bytes(data)


def test_a_format_that_is_not_known_is_damage_like_any_other(tmp_path: Path) -> None:
    World(tmp_path).close()
    meta = tmp_path / "META"
    meta.write_bytes(meta.read_bytes().replace(b'"format": 1', b'"format": 5'))
    assert [damage.name for damage in verify(Disk(tmp_path))] == ["META"]


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    world = World(tmp_path, segment_bytes=1024)
    for _ in range(10):
        world.durably(b"x" * 500)
    world.close()
    (tmp_path / "seg-00000000000000000002.log").unlink()
    found = verify(Disk(tmp_path))
    assert ("seg-00000000000000000002.log", "it is missing") in [(damage.name, damage.why) for damage in found]


def test_a_torn_tail_is_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.durably(b"whole")
    world.kill()
    segment = tmp_path / "seg-00000000000000000001.log"
    whole = segment.stat().st_size
    segment.write_bytes(segment.read_bytes() + b"torn")
    (damage,) = verify(Disk(tmp_path))
    assert (damage.name, damage.offset) == (segment.name, whole)


def test_an_empty_directory_has_no_meta(tmp_path: Path) -> None:
    assert [damage.name for damage in verify(Disk(tmp_path))] == ["META"]
