"""Frames whose checksum is right and whose content is not: they are refused, and nothing outside of them is read."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import DamagedJournal, JournalError, UnknownFormat
from leveret.core.ports import Journal
from leveret.storage.journal.entries import Replay, read_head
from tests.storage.journal.frames import (
    ALSO,
    DEDUP,
    DEFINE,
    PUBLISH,
    PURGE,
    RECORD,
    SALT,
    SETTLE,
    TIMED,
    entries,
    frame,
    record_entry,
)
from tests.storage.journal.plain_state import PlainState


def play(data: bytes) -> PlainState:
    state = PlainState(Journal())
    head = read_head(data, 0, SALT)
    assert head is not None
    Replay(state, {}).batch(data, 48, head, 1, 112)
    return state


def test_a_good_frame_plays() -> None:
    also = struct.pack("<BBH7I", ALSO, 2, 0, 8, 9, 0, 0, 0, 0, 0)
    timed = struct.pack("<BBHIQQQ", TIMED, 0, 3, 0, 11, 12, 13)
    state = play(frame(RECORD, record_entry(PUBLISH) + timed + also))
    assert sorted(state.queues) == [1, 8, 9]
    held = state.queues[8][5]
    assert (held.offset, held.size, held.deliveries) == (112, len(RECORD), 3)
    assert (held.expiry_ms, held.due_ms, held.group) == (11, 12, 13)


@pytest.mark.parametrize("kind", [PUBLISH, PURGE, DEFINE])
@pytest.mark.parametrize(("offset", "size"), [(1, len(RECORD)), (len(RECORD) + 1, 0), (2**32 - 1, 2), (0, 2**32 - 1)])
def test_an_area_outside_of_the_frame_is_refused(kind: int, offset: int, size: int) -> None:
    with pytest.raises(DamagedJournal):
        play(frame(RECORD, record_entry(kind, offset, size)))


@pytest.mark.parametrize(
    "record",
    [
        b"",
        RECORD[:9],
        RECORD[:8] + b"\xff" + RECORD[9:],
        RECORD[:10] + b"\xff" + RECORD[11:],
        RECORD[:4] + b"\xff\xff\xff\xff" + RECORD[8:],
    ],
    ids=["empty", "short", "long exchange", "long routing key", "long header"],
)
def test_a_record_that_contradicts_itself_is_refused(record: bytes) -> None:
    with pytest.raises(DamagedJournal):
        play(frame(record, record_entry(PUBLISH, size=len(record))))


@pytest.mark.parametrize("kind", [0, TIMED, ALSO, 10, 255])
def test_an_entry_that_cannot_stand_alone_or_is_unknown_is_refused(kind: int) -> None:
    with pytest.raises(UnknownFormat, match=f"kind {kind}"):
        play(frame(b"", bytes([kind]) + bytes(31)))


def test_more_queues_than_fit_are_refused() -> None:
    with pytest.raises(DamagedJournal):
        play(frame(RECORD, record_entry(PUBLISH) + bytes([ALSO, 8]) + bytes(30)))


@pytest.mark.parametrize("tail", [b"", bytes([SETTLE]) + bytes(31)], ids=["nothing", "another"])
def test_a_key_without_its_time_is_refused(tail: bytes) -> None:
    with pytest.raises(DamagedJournal):
        play(frame(b"", bytes([DEDUP]) + bytes(31) + tail))


def test_a_list_of_numbers_that_is_cut_is_refused() -> None:
    with pytest.raises(DamagedJournal):
        play(frame(bytes(12), record_entry(PURGE, 0, 12)))


@pytest.mark.parametrize(
    "changed",
    [{"body_len": 2**32 - 1}, {"index_len": 2**32 - 32}, {"index_len": 33}, {"flags": 1}],
    ids=["bodies", "entries", "a part of an entry", "a tag that is not there"],
)
def test_lengths_beyond_the_file_are_no_frame(changed: dict[str, int]) -> None:
    assert read_head(frame(RECORD, record_entry(PUBLISH), **changed), 0, SALT) is None


@pytest.mark.parametrize("offset", [1, 47, 48, 2**63, 2**64 - 1])
def test_an_offset_beyond_the_file_is_no_frame(offset: int) -> None:
    assert read_head(frame(b"", b""), offset, SALT) is None


def test_another_salt_is_no_frame() -> None:
    assert read_head(frame(b"", b""), 0, SALT) is not None
    assert read_head(frame(b"", b""), 0, SALT + 1) is None


@given(st.one_of(st.binary(max_size=80), st.just(RECORD)), st.lists(entries, max_size=8).map(b"".join))
def test_whatever_a_frame_holds_it_plays_or_is_refused(area: bytes, index: bytes) -> None:
    with suppress(JournalError):
        play(frame(area, index))


@given(st.binary(max_size=120), st.integers(0, 130))
def test_random_bytes_are_no_frame(data: bytes, offset: int) -> None:
    assert read_head(data, offset, SALT) is None
