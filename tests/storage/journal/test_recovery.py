"""Torn tails are cut, damage is refused, and the difference is told."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from leveret.core.errors import DamagedJournal, JournalError, UnknownFormat
from leveret.storage.journal.files.segments import segment_name
from leveret.storage.journal.records import crc32c
from leveret.storage.segments import HEADER_BYTES
from tests.sim.simdisk import SimDisk
from tests.storage.journal.world import QuickDisk, World


def segments(path: Path) -> list[Path]:
    return sorted(path.glob("seg-*.log"))


def killed(path: Path, frames: int = 3, **options: Any) -> tuple[object, ...]:
    """Leave a journal of some frames as a killed process does; give its state."""
    world = World(path, **options)
    for number in range(frames):
        world.durably(b"message %d" % number, (1, 2))
    facts = world.facts()
    world.kill()
    return facts


def test_a_killed_process_loses_nothing_durable(tmp_path: Path) -> None:
    facts = killed(tmp_path)
    world = World(tmp_path)
    assert world.facts() == facts
    assert (world.recovered.frames, world.recovered.torn_bytes, world.recovered.from_checkpoint) == (3, 0, False)
    world.close()


def test_the_last_frame_torn_at_every_byte_is_cut(tmp_path: Path) -> None:
    original = tmp_path / "original"
    facts = killed(original, frames=2)
    whole = segments(original)[0].stat().st_size
    world = World(original)
    world.durably(b"the last", (3,))
    world.kill()
    full = segments(original)[0].stat().st_size
    for size in range(whole, full):
        path = tmp_path / str(size)
        shutil.copytree(original, path)
        with segments(path)[0].open("r+b") as file:
            file.truncate(size)
        world = World(QuickDisk(path))
        assert world.facts() == facts
        assert world.recovered.torn_bytes == size - whole
        world.durably(b"goes on", (3,))
        after = world.facts()
        world.kill()
        world = World(QuickDisk(path))
        assert world.facts() == after
        world.kill()


def test_a_torn_frame_with_zeros_behind_it_is_cut(tmp_path: Path) -> None:
    facts = killed(tmp_path)
    with segments(tmp_path)[0].open("ab") as file:
        file.write(b"LFRM" + bytes(2000))
    world = World(tmp_path)
    assert world.facts() == facts
    assert world.recovered.torn_bytes == 2004
    world.close()


def test_a_flipped_bit_anywhere_is_detected_or_harmless(tmp_path: Path) -> None:
    original = tmp_path / "original"
    world = World(original, segment_bytes=1024)
    for number in range(8):
        world.durably(b"message %d" % number, (1,))
    world.state.settle(1, 3)
    world.commit.flush()
    world.commit.mark()
    facts = world.facts()
    world.kill()
    assert len(segments(original)) > 1
    harmless = []
    for name in [segment.name for segment in segments(original)] + ["META"]:
        for offset in range((original / name).stat().st_size):
            path = tmp_path / "copy"
            shutil.copytree(original, path)
            data = bytearray((path / name).read_bytes())
            data[offset] ^= 1 << offset % 8
            (path / name).write_bytes(data)
            try:
                world = World(QuickDisk(path))
            except JournalError:
                pass
            else:
                assert world.facts() == facts, f"a flip at {offset} of {name} went unnoticed"
                harmless.append((name, offset))
                world.kill()
            shutil.rmtree(path)
    last = segments(original)[-1]
    mark = range(last.stat().st_size - 48, last.stat().st_size)
    assert harmless == [(last.name, offset) for offset in mark], "only the empty frame at the very end may be lost"


def test_a_bad_frame_before_a_good_one_is_refused_and_can_be_salvaged(tmp_path: Path) -> None:
    killed(tmp_path, frames=5)
    segment = segments(tmp_path)[0]
    data = bytearray(segment.read_bytes())
    data[data.find(b"message 2")] ^= 1
    segment.write_bytes(data)
    with pytest.raises(DamagedJournal, match=rf"{segment.name} is damaged at offset \d+.*salvage"):
        World(tmp_path)
    world = World(tmp_path, salvage=True)
    assert list(world.bodies()[1].values()) == [b"message 0", b"message 1", b"message 3", b"message 4"]
    assert (world.recovered.skipped_frames, world.recovered.skipped_messages) == (1, 1)
    assert world.recovered.skipped_bytes == 48 + 32 * 2 + 8 + 12 + 12 + len(b"message 2")
    facts = world.facts()
    world.kill()
    world = World(tmp_path)
    assert world.facts() == facts, "after a salvage the directory opens without it"
    world.close()


def test_a_torn_tail_before_the_last_segment_is_refused(tmp_path: Path) -> None:
    killed(tmp_path, frames=20, segment_bytes=1024)
    first = segments(tmp_path)[0]
    with first.open("r+b") as file:
        file.truncate(first.stat().st_size - 5)
    with pytest.raises(DamagedJournal, match=first.name):
        World(tmp_path)
    world = World(tmp_path, salvage=True)
    assert world.recovered.skipped_bytes > 0
    assert len(world.bodies()[1]) == 19
    world.close()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_missing_segment_is_refused(tmp_path: Path, gone: int) -> None:
    killed(tmp_path, frames=20, segment_bytes=1024)
    missing = segments(tmp_path)[gone]
    missing.unlink()
    with pytest.raises(DamagedJournal, match=f"{missing.name} is missing"):
        World(tmp_path)
    world = World(tmp_path, salvage=True)
    assert 0 < len(world.bodies()[1]) < 20
    world.close()


def test_a_segment_of_another_log_is_refused(tmp_path: Path) -> None:
    killed(tmp_path / "a", frames=20, segment_bytes=1024)
    killed(tmp_path / "b", frames=20, segment_bytes=2048)
    shutil.copy(segments(tmp_path / "b")[1], segments(tmp_path / "a")[1])
    with pytest.raises(DamagedJournal):
        World(tmp_path / "a")


@pytest.mark.parametrize("size", [0, 1, 63, 64])
def test_a_segment_that_died_in_its_creation_is_removed(tmp_path: Path, size: int) -> None:
    facts = killed(tmp_path)
    header = segments(tmp_path)[0].read_bytes()[:64]
    torn = tmp_path / "seg-00000000000000000002.log"
    torn.write_bytes((header[:40] + b"?" * 24)[:size])
    world = World(tmp_path)
    assert world.facts() == facts
    assert not torn.exists()
    world.durably(b"goes on")
    world.close()


def test_a_last_segment_whose_header_alone_is_damaged_is_refused(tmp_path: Path) -> None:
    killed(tmp_path, frames=20, segment_bytes=1024)
    last = segments(tmp_path)[-1]
    data = bytearray(last.read_bytes())
    data[10] ^= 1
    last.write_bytes(data)
    with pytest.raises(DamagedJournal, match=last.name):
        World(tmp_path)
    assert last.exists()


def test_a_segment_of_a_newer_version_is_named(tmp_path: Path) -> None:
    killed(tmp_path)
    segment = segments(tmp_path)[0]
    data = bytearray(segment.read_bytes())
    data[4:6] = (3).to_bytes(2, "little")
    data[60:64] = crc32c(bytes(data[:60])).to_bytes(4, "little")
    segment.write_bytes(data)
    with pytest.raises(UnknownFormat, match="version 3"):
        World(tmp_path)


def test_an_entry_of_an_unknown_kind_is_not_skipped(tmp_path: Path) -> None:
    killed(tmp_path, frames=1)
    segment = segments(tmp_path)[0]
    data = bytearray(segment.read_bytes())
    data[-64] = 200
    data[68:72] = crc32c(bytes(data[72:])).to_bytes(4, "little")
    segment.write_bytes(data)
    with pytest.raises(UnknownFormat, match="kind 200"):
        World(tmp_path)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param(16, 0xFFFFFFFF, id="offset"),
        pytest.param(20, 0xFFFFFFFF, id="size"),
        pytest.param(20, 9, id="size below a record"),
    ],
)
def test_an_entry_that_points_outside_of_its_frame_is_refused(tmp_path: Path, field: int, value: int) -> None:
    killed(tmp_path, frames=1)
    segment = segments(tmp_path)[0]
    data = bytearray(segment.read_bytes())
    start = len(data) - 64 + field
    data[start : start + 4] = value.to_bytes(4, "little")
    data[68:72] = crc32c(bytes(data[72:])).to_bytes(4, "little")
    segment.write_bytes(data)
    with pytest.raises(DamagedJournal, match="contradicts itself"):
        World(tmp_path)


def test_a_newer_format_of_the_directory_is_refused(tmp_path: Path) -> None:
    killed(tmp_path)
    meta = json.loads((tmp_path / "META").read_text())
    (tmp_path / "META").write_text(json.dumps({**meta, "format": 3, "more": "than we know"}))
    with pytest.raises(UnknownFormat, match="format 3"):
        World(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 1}', '{"format": "1"}'])
def test_a_damaged_meta_is_refused(tmp_path: Path, text: str) -> None:
    killed(tmp_path)
    (tmp_path / "META").write_text(text)
    with pytest.raises(DamagedJournal, match="META"):
        World(tmp_path)


def test_segments_without_meta_are_refused(tmp_path: Path) -> None:
    killed(tmp_path)
    (tmp_path / "META").unlink()
    with pytest.raises(DamagedJournal, match="META is missing"):
        World(tmp_path)


def test_the_identity_of_a_directory_stays(tmp_path: Path) -> None:
    world = World(tmp_path)
    meta = world.store.meta
    world.close()
    world = World(tmp_path)
    assert world.store.meta == meta
    assert len(bytes.fromhex(meta.receipt_key)) == 32
    world.close()


def test_a_failed_open_lets_go_of_the_directory(tmp_path: Path) -> None:
    killed(tmp_path)
    meta = (tmp_path / "META").read_text()
    (tmp_path / "META").write_text("")
    with pytest.raises(DamagedJournal):
        World(tmp_path)
    (tmp_path / "META").write_text(meta)
    World(tmp_path).close()


def test_a_segment_that_was_begun_after_the_checkpoint_is_not_left_in_the_page_cache() -> None:
    disk, second = SimDisk(), segment_name(2)
    world = World(disk, segment_bytes=1024)
    world.store.checkpoint()
    world.durably(bytes(1024))
    killed: list[SimDisk] = []

    def watch(call: str) -> None:
        if second in disk.names() and disk.size(second) == HEADER_BYTES:
            killed.append(disk.killed())

    disk.hook = watch
    world.durably(b"never written")
    World(killed[0], segment_bytes=1024)
    assert killed[0].durable_files[second].durable == killed[0].read_all(second) != b""


def test_a_segment_is_closed_when_somebody_asks_for_it(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.journal.begin_segment()  # nothing is in it yet: it stays the first one
    world.durably(b"one")
    assert [path.name for path in segments(tmp_path)] == [segment_name(1)]
    assert world.journal.begin_segment()
    assert not world.journal.begin_segment()
    world.commit.flush()
    assert [path.name for path in segments(tmp_path)] == [segment_name(1), segment_name(2)]
    world.durably(b"two")
    facts = world.facts()
    world.kill()
    again = World(tmp_path)
    assert again.facts() == facts
    again.close()
