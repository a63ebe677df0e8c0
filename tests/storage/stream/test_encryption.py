"""Streams that are encrypted at rest."""

from pathlib import Path

import pytest

from leveret.core.errors import WrongKey
from leveret.storage.disk import Disk
from leveret.storage.encryption import MasterKeys
from leveret.storage.journal.records import crc32c
from leveret.storage.options import StreamOptions
from leveret.storage.segments import HEADER_BYTES
from leveret.storage.stream.blocks import HEAD_BYTES, block_bytes
from leveret.storage.stream.reader import Start
from tests.storage.stream.world import HEADER, World, numbered

OLD, NEW = bytes(32), bytes([1] * 32)


def opened(path: Path, *keys: bytes) -> World:
    return World(Disk(path), segment_bytes=1 << 10, sync="never", keys=MasterKeys(*keys))


def with_keys(world: World, *keys: bytes) -> None:
    """Open again with other keys."""
    world.options = StreamOptions(segment_bytes=1 << 10, sync="never", keys=MasterKeys(*keys))
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


def sealed_heads(path: Path) -> dict[str, list[tuple[bytes, bytes, bytes]]]:
    """By segment: the key id, the key salt and the nonce of each block that a derived key encrypts."""
    found: dict[str, list[tuple[bytes, bytes, bytes]]] = {}
    for file in sorted(path.glob("*.log")):
        data, at = file.read_bytes(), HEADER_BYTES
        rows = found[file.name] = []
        while at < len(data):
            flags, sealed = int.from_bytes(data[at + 52 : at + 56], "little"), data[at + HEAD_BYTES :]
            assert flags & 12 in (0, 4, 12)
            if flags & 8:
                rows.append((sealed[:16], sealed[16:28], sealed[28:40]))
            at += block_bytes(data, at)
    return found


def test_each_segment_and_each_process_has_a_key_of_its_own(tmp_path: Path) -> None:
    world = opened(tmp_path, OLD)
    world.fill(30)
    world.restart()
    world.fill(3)
    world.log.close(0)
    found = sealed_heads(tmp_path)
    assert len(found) > 3
    salts = [{salt for _, salt, _ in rows} for rows in found.values()]
    assert [len(each) for each in salts[:-1]] == [1] * (len(salts) - 1)
    assert len(set().union(*salts)) == sum(map(len, salts)) > len(salts) - 1
    blocks = [row for rows in found.values() for row in rows]
    assert len(set(blocks)) == len(blocks) > 20
    assert {key_id for key_id, _, _ in blocks} == {MasterKeys(OLD).writing}


def test_another_master_key_begins_a_new_segment(tmp_path: Path) -> None:
    world = opened(tmp_path)
    for keys in ((), (OLD,), (OLD,), (NEW, OLD), (OLD, NEW)):
        with_keys(world, *keys)
        world.append(b"body")
        world.commit()
    world.log.close(0)
    found = [{key_id for key_id, _, _ in rows} for rows in sealed_heads(tmp_path).values()]
    old, new = MasterKeys(OLD).writing, MasterKeys(NEW).writing
    assert found == [set(), {old}, {new}, {old}]


def test_a_block_does_not_decrypt_with_the_key_of_another_segment(tmp_path: Path) -> None:
    world = opened(tmp_path, OLD)
    world.fill(30)
    world.log.close(0)
    first, second = sorted(tmp_path.glob("*.log"))[:2]
    data, salt = bytearray(first.read_bytes()), second.read_bytes()[HEADER_BYTES + HEAD_BYTES + 16 :][:12]
    size = block_bytes(bytes(data), HEADER_BYTES)
    data[HEADER_BYTES + HEAD_BYTES + 16 : HEADER_BYTES + HEAD_BYTES + 28] = salt
    checked = bytes(data[HEADER_BYTES + 8 : HEADER_BYTES + size])
    data[HEADER_BYTES + 4 : HEADER_BYTES + 8] = crc32c(checked).to_bytes(4, "little")
    first.write_bytes(data)
    world = opened(tmp_path, OLD)
    with pytest.raises(WrongKey, match="tampered"):
        world.bodies()
    world.log.close(0)
