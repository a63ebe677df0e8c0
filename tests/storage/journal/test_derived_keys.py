"""Keys of their own for segments, checkpoints, blobs and indexes; and no nonce twice under any of them."""

from __future__ import annotations

import errno
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.core.errors import DamagedJournal, WrongKey
from leveret.storage.disk import Disk
from leveret.storage.encryption import CIPHERS_MAX, KeyRef, MasterKeys, SegmentCipher, batch_nonce, hkdf, seal
from leveret.storage.journal.checkpoint import checkpoint_names
from leveret.storage.journal.files.meta import read_meta
from leveret.storage.journal.files.recovery import verify
from leveret.storage.journal.files.segments import FRAME_HEADER_BYTES, SegmentHeader, parse_header
from leveret.storage.segments import HEADER_BYTES
from tests.sim.simtable import SimDatabase, SimTable
from tests.storage.journal.old_store import EVENTS, KEY, OPTIONS, ORDERS, STAGED, key_file, unpacked
from tests.storage.journal.table_world import TableWorld
from tests.storage.journal.world import FaultyDisk, World

OLD, NEW = b"o" * 32, b"n" * 32


@pytest.mark.parametrize(
    ("key", "salt", "info", "expected"),
    [
        (
            "0b" * 22,
            "000102030405060708090a0b0c",
            "f0f1f2f3f4f5f6f7f8f9",
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865",
        ),
        (
            bytes(range(0x50)).hex(),
            bytes(range(0x60, 0xB0)).hex(),
            bytes(range(0xB0, 0x100)).hex(),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
            "da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87",
        ),
        (
            "0b" * 22,
            "",
            "",
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8",
        ),
    ],
    ids=["case 1", "case 2", "case 3"],
)
def test_keys_are_derived_as_rfc_5869_says(key: str, salt: str, info: str, expected: str) -> None:
    found = hkdf(bytes.fromhex(key), bytes.fromhex(salt), bytes.fromhex(info), len(expected) // 2)
    assert found.hex() == expected


def headers(path: Path) -> list[SegmentHeader]:
    """Those of all segments."""
    found = [parse_header(file.read_bytes(), number) for number, file in enumerate(sorted(path.glob("seg-*.log")), 1)]
    return [header for header in found if header is not None]


def written(world: World, count: int = 12) -> None:
    for _ in range(count):
        world.durably(b"x" * 200)


def test_two_segments_never_share_a_key(tmp_path: Path) -> None:
    for name in ("one", "two"):
        world = World(tmp_path / name, keys=MasterKeys(OLD), segment_bytes=1024)
        written(world)
        world.close()
    found = [header for name in ("one", "two") for header in headers(tmp_path / name)]
    assert len({header.key.salt for header in found}) == len(found) > 6
    assert {header.key.key_id for header in found} == {MasterKeys(OLD).writing}
    plain = b"the same bytes"
    sealed = {header.cipher(MasterKeys(OLD)).encrypt(bytes(12), plain, b"") for header in found}
    assert len(sealed) == len(found)


def test_a_frame_does_not_decrypt_in_another_segment(tmp_path: Path) -> None:
    world = World(tmp_path, keys=MasterKeys(OLD), segment_bytes=1024)
    written(world)
    world.close()
    first, second = headers(tmp_path)[:2]
    data = sorted(tmp_path.glob("seg-*.log"))[0].read_bytes()[HEADER_BYTES:]
    body_len, index_len = struct.unpack_from("<II", data, 8)
    sealed = data[FRAME_HEADER_BYTES : FRAME_HEADER_BYTES + body_len + index_len + 16]
    assert first.opened(MasterKeys(OLD), first.first_seq, sealed, data[8:FRAME_HEADER_BYTES])
    for other in (second, first._replace(segment=9), first._replace(key=KeyRef(first.key.key_id, bytes(11) + b"x"))):
        nonce = batch_nonce(first.salt, first.first_seq)
        with pytest.raises(WrongKey, match="tampered"):
            other.cipher(MasterKeys(OLD)).decrypt(nonce, sealed, data[8:FRAME_HEADER_BYTES])


@pytest.fixture
def nonces(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[bytes, bytes]]:
    """How often each pair of a key and a nonce was used to encrypt, by whoever does."""
    used: Counter[tuple[bytes, bytes]] = Counter()
    made, encrypt = SegmentCipher.__init__, SegmentCipher.encrypt

    def remembered(self: SegmentCipher, key_id: bytes, key: bytes) -> None:
        made(self, key_id, key)
        keys[id(self)] = self, key

    def counted(self: SegmentCipher, nonce: bytes, data: Any, header: bytes) -> bytes:
        used[keys[id(self)][1], nonce] += 1
        return encrypt(self, nonce, data, header)

    keys: dict[int, tuple[SegmentCipher, bytes]] = {}
    monkeypatch.setattr(SegmentCipher, "__init__", remembered)
    monkeypatch.setattr(SegmentCipher, "encrypt", counted)
    return used


def test_no_nonce_is_used_twice_over_restarts(tmp_path: Path, nonces: Counter[tuple[bytes, bytes]]) -> None:
    for _ in range(4):
        world = World(tmp_path, keys=MasterKeys(OLD), segment_bytes=1024)
        written(world, 5)
        world.store.checkpoint()
        world.publish(b"lost")
        world.kill()
    assert len(nonces) > 20
    assert set(nonces.values()) == {1}
    assert OLD not in {key for key, _ in nonces}  # the master key encrypts nothing


def test_a_frame_that_is_written_again_is_not_encrypted_again(
    tmp_path: Path, nonces: Counter[tuple[bytes, bytes]]
) -> None:
    disk = FaultyDisk(tmp_path)
    world = World(disk, keys=MasterKeys(OLD), spare_bytes=4096)
    written(world, 3)
    disk.room_bytes = 100
    world.durably(b"y" * 500)
    assert world.journal.full  # the spare file was given up, and the frame written once more
    disk.failing["write"] = errno.ENOSPC
    with pytest.raises(leveret.JournalFailed):
        world.durably(b"z")
    assert set(nonces.values()) == {1}
    world.kill()
    again = World(tmp_path, keys=MasterKeys(OLD))
    assert len(again.bodies()[1]) == 4
    again.close()


def test_an_interrupted_frame_is_not_encrypted_again(
    tmp_path: Path, nonces: Counter[tuple[bytes, bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, keys=MasterKeys(OLD))
    written(world, 3)
    write, interrupted = world.disk.write, list[int]()

    def interrupt(fd: int, buffers: Any) -> int:
        if not interrupted:
            interrupted.append(write(fd, [b"".join(bytes(each) for each in buffers)[:40]]))
            raise KeyboardInterrupt
        return write(fd, buffers)

    monkeypatch.setattr(world.disk, "write", interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.durably(b"interrupted")
    world.commit.flush()
    assert (interrupted, set(nonces.values())) == ([40], {1})
    facts = world.facts()
    world.kill()
    again = World(tmp_path, keys=MasterKeys(OLD), cache_bytes=1)
    assert again.facts() == facts
    again.close()


class Doubtful(SimTable):
    """A table that does not say what became of the first attempt at each frame."""

    def append(self, row: Any) -> bool:
        from leveret.storage.journal.postgres.table import Unknown

        if row.seq not in self.tried:
            self.tried.add(row.seq)
            raise Unknown("the connection was lost")
        return super().append(row)

    tried: set[int]


def test_a_frame_that_is_sent_again_is_not_encrypted_again(nonces: Counter[tuple[bytes, bytes]]) -> None:
    table = Doubtful(SimDatabase())
    table.tried = set()
    world = TableWorld(table, keys=MasterKeys(OLD))
    for _ in range(5):
        world.durably(b"x" * 200)
    assert len(table.tried) >= 5
    assert set(nonces.values()) == {1}
    world.kill()


def test_boxes_differ_and_keys_are_kept_in_bounds() -> None:
    keys = MasterKeys(OLD)
    assert len({seal(keys, b"info", b"plain") for _ in range(50)}) == 50
    for number in range(CIPHERS_MAX + 10):
        keys.cipher(keys.new_key(), str(number).encode())
    assert len(keys._ciphers) <= CIPHERS_MAX


def test_the_ids_of_keys_are_in_meta_before_they_are_used(tmp_path: Path) -> None:
    old, new = MasterKeys(OLD).writing.hex(), MasterKeys(NEW).writing.hex()
    World(tmp_path).close()
    assert read_meta(Disk(tmp_path)).keys == ()
    World(tmp_path, keys=MasterKeys(OLD)).kill()
    assert (read_meta(Disk(tmp_path)).keys, read_meta(Disk(tmp_path)).format) == ((old,), 2)
    World(tmp_path, keys=MasterKeys(NEW, OLD)).kill()
    assert read_meta(Disk(tmp_path)).keys == (new, old)
    for keys, missing in ((MasterKeys(), new), (MasterKeys(NEW), old), (MasterKeys(b"x" * 32), new)):
        with pytest.raises(WrongKey, match=rf"{missing}; given: .*rotate-key"):
            World(tmp_path, keys=keys)
    assert read_meta(Disk(tmp_path)).keys == (new, old)


def bodies_of(broker: leveret.Broker) -> tuple[list[str], list[str]]:
    """What is in the queue and in the stream of the old store."""
    messages = broker.queue("orders").browse(100)
    return [each.data.decode() for each in messages], [
        each.data.decode() for each in broker.stream("events").read(offset="first", max_records=100)
    ]


def test_a_store_of_an_older_version_goes_on_in_the_new_format(tmp_path: Path) -> None:
    place, keys = unpacked(tmp_path / "store"), key_file(tmp_path / "keys", KEY)
    before = sorted(place.glob("seg-*.log"))
    assert {header.key.is_derived for header in headers(place)} == {False}
    with leveret.open(place, encryption_key_file=keys, **OPTIONS) as broker:
        assert bodies_of(broker) == (ORDERS, EVENTS)
        broker.queue("orders").send("new")
        broker.stream("events").send("event 6")
    assert read_meta(Disk(place)).keys == (MasterKeys(KEY).writing.hex(),)
    found = {header.segment: header.key.is_derived for header in headers(place)}
    assert found == {number: number > len(before) for number in found}
    assert len(found) == len(before) + 1
    with leveret.open(place, encryption_key_file=keys, **OPTIONS) as broker:
        assert bodies_of(broker) == ([*ORDERS, "new"], [*EVENTS, "event 6"])


def test_a_store_of_an_older_version_says_which_key_it_needs(tmp_path: Path) -> None:
    place = unpacked(tmp_path / "store")
    for keys in (None, key_file(tmp_path / "keys", NEW)):
        with pytest.raises(WrongKey, match=MasterKeys(KEY).writing.hex()):
            leveret.open(place, encryption_key_file=keys, **OPTIONS)
    assert read_meta(Disk(place)).keys == ()


def test_a_piece_that_an_older_version_staged_is_read(tmp_path: Path) -> None:
    from leveret.ingest.commit_log import Sink
    from leveret.ingest.quota import Quota, StagingLimits
    from leveret.ingest.staging import Folder, Staging

    place = unpacked(tmp_path / "store")
    limits = StagingLimits(10_000, 10_000, 10_000, 10, 10, 1_000)
    staging = Staging(Folder(Disk(place / "staging")), MasterKeys(KEY), Quota(limits), 0)
    assert staging.read(Sink("/", "guest", "s"), "a", 0) == STAGED


def test_checkpoints_of_both_versions_are_used(tmp_path: Path) -> None:
    place, keys = unpacked(tmp_path / "store"), key_file(tmp_path / "keys", KEY)
    for _ in range(2):
        broker = leveret.open(place, encryption_key_file=keys, **OPTIONS)
        store = broker.runtime.store
        assert store is not None
        assert store.recovered.from_checkpoint
        broker.close()
    (name,) = checkpoint_names(Disk(place))
    assert (place / name).read_bytes()[4:6] == b"\x02\x00"


def test_a_damaged_encrypted_segment_is_salvaged(tmp_path: Path) -> None:
    world = World(tmp_path, keys=MasterKeys(OLD), segment_bytes=1024)
    written(world, 12)
    world.kill()
    first, second, *_ = sorted(tmp_path.glob("seg-*.log"))
    data = bytearray(first.read_bytes())
    data[HEADER_BYTES + FRAME_HEADER_BYTES + 30] ^= 1  # a frame
    first.write_bytes(data)
    data = bytearray(second.read_bytes())
    data[40] ^= 1  # the salt of the key, in the header
    second.write_bytes(data)
    assert {damage.name for damage in verify(Disk(tmp_path))} == {first.name, second.name}
    with pytest.raises(DamagedJournal, match=first.name):
        World(tmp_path, keys=MasterKeys(OLD))
    found = World(tmp_path, keys=MasterKeys(OLD), salvage=True, cache_bytes=1)
    whole = len(found.bodies()[1])
    assert (0 < whole < 12, found.recovered.skipped_frames > 1) == (True, True)
    found.close()
    again = World(tmp_path, keys=MasterKeys(OLD), cache_bytes=1)
    assert len(again.bodies()[1]) == whole
    again.close()
