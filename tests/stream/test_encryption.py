"""Streams that are encrypted at rest."""

from pathlib import Path

import pytest

from leveret.core.errors import WrongKey
from leveret.journal.disk import Disk
from leveret.journal.encryption import Keys
from leveret.journal.records import crc32c
from leveret.stream.options import StreamOptions
from leveret.stream.starts import Start
from tests.stream.world import HEADER, World, numbered

OLD, NEW = bytes(32), bytes([1] * 32)


def opened(path: Path, *keys: bytes) -> World:
    return World(Disk(path), segment_bytes=1 << 10, sync="never", keys=Keys(*keys))


def with_keys(world: World, *keys: bytes) -> None:
    """Open again with other keys."""
    world.options = StreamOptions(segment_bytes=1 << 10, sync="never", keys=Keys(*keys))
    world.restart()


def test_nothing_of_a_record_is_readable_on_the_disk(tmp_path: Path) -> None:
    world = opened(tmp_path, OLD)
    for sequence in range(1, 40):
        world.append(b"the body", filter_value=b"the filter", producer=b"the producer", sequence=sequence)
        world.commit()
    world.log.close(0)
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert [part for part in (HEADER, b"the body", b"the filter", b"the producer", b"events") if part in stored] == []


@pytest.mark.parametrize("come_back", ["restart", "kill"])
def test_an_encrypted_stream_is_as_any_other(tmp_path: Path, come_back: str) -> None:
    world = opened(tmp_path, OLD)
    world.fill(50, commit_each=3)
    world.append(b"last", filter_value=b"eu", producer=b"till", sequence=4)
    world.commit()
    getattr(world, come_back)()
    assert world.bodies() == [*numbered(range(50)), b"last"]
    assert world.bodies(wanted=[b"eu"]) == [b"last"]
    assert world.append(b"again", producer=b"till", sequence=4) is None
    assert world.log.find(Start("timestamp", 1_205), 0) == 21
    world.log.close(0)


def test_keys_may_change_at_any_time(tmp_path: Path) -> None:
    world = opened(tmp_path)
    for number, keys in enumerate([(), (OLD,), (NEW, OLD), (OLD, NEW)]):
        with_keys(world, *keys)
        world.append(b"body %d" % number, producer=b"till", sequence=number + 1)
        world.commit()
        world.kill()
        assert world.bodies() == numbered(range(number + 1))
    world.log.close(0)


@pytest.mark.parametrize("keys", [(), (NEW,)])
def test_another_key_is_refused(tmp_path: Path, keys: tuple[bytes, ...]) -> None:
    world = opened(tmp_path, OLD)
    world.fill(3)
    world.log.close(0)
    with pytest.raises(WrongKey, match="the data needs the key with id"):
        opened(tmp_path, *keys)


def test_a_block_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    world = opened(tmp_path, OLD)
    world.append(b"one")
    world.commit()
    path = tmp_path / world.log.segments[0].name
    stored = path.read_bytes()
    block = stored[64 + 8 : -1] + bytes([stored[-1] ^ 1])
    path.write_bytes(stored[:68] + crc32c(block).to_bytes(4, "little") + block)
    reader = world.log.reader(0)
    with pytest.raises(WrongKey, match="tampered with"):
        reader.read()
    reader.close()
    world.log.abandon()
