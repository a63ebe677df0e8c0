"""Frames as columns, and surveys of them: right rows, bounded batches, and refusal of what contradicts itself."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import DamagedJournal, JournalError, UnknownFormat
from leveret.storage.journal.columns import KINDS, EventColumns, Survey
from tests.storage.journal.frames import (
    ALSO,
    DEDUP,
    DEFINE,
    DELIVER,
    PUBLISH,
    PURGE,
    RECORD,
    RETURN,
    SALT,
    SETTLE,
    TIMED,
    entries,
    frame,
    record_entry,
)

AT_MS = 1_000


def run_entry(kind: int, seq: int, count: int, at_ms: int = AT_MS, queue: int = 1, consumer: int = 0) -> bytes:
    return struct.pack("<BBHIQQII", kind, 0, 1, queue, seq, at_ms << 16 | count, 250, consumer)


def columns_of(data: bytes, **options: object) -> EventColumns:
    return EventColumns(data, "segment", 0, len(data), SALT, **options)  # type: ignore[arg-type]


def numbers(packed: bytes, form: str = "q") -> list[int]:
    return [number for (number,) in struct.iter_unpack(f"<{form}", packed)]


def told(data: bytes, **options: object) -> list[tuple[str, int, int, int]]:
    """Kind, queue, number and time of each row."""
    columns = columns_of(data, **options)
    rows: list[tuple[str, int, int, int]] = []
    while columns.fill(2):
        taken = columns.take()
        kinds = [KINDS[kind] for kind in taken["kind"]]
        rows += zip(kinds, numbers(taken["queue"], "i"), numbers(taken["seq"]), numbers(taken["at_ms"]), strict=True)
    return rows


def test_a_publish_has_a_row_for_each_queue() -> None:
    also = struct.pack("<BBH7I", ALSO, 2, 0, 8, 9, 0, 0, 0, 0, 0)
    timed = struct.pack("<BBHIQQQ", TIMED, 0, 3, 0, 11, 12, 13)
    data = frame(RECORD, record_entry(PUBLISH) + timed + also)
    assert told(data) == [("published", queue, 5, 9) for queue in (1, 8, 9)]
    columns = columns_of(data)
    assert columns.fill(10)
    taken = columns.take()
    facts = ("expiry_ms", "due_ms", "enqueued_ms", "bytes")
    assert [numbers(taken[name]) for name in facts] == [[11] * 3, [12] * 3, [9] * 3, [len(b"der and body")] * 3]


def test_content_comes_only_when_it_is_wanted() -> None:
    data = frame(RECORD, record_entry(PUBLISH) + run_entry(SETTLE, 5, 1))
    columns = columns_of(data, content=True)
    assert columns.fill(10)
    taken = columns.take()
    assert (taken["route"], taken["header"], taken["body"]) == (b"\x01e\x01r", b"hea", b"der and body")
    assert numbers(taken["body_ends"], "i") == [0, len(b"der and body")]
    assert told(data, content=True) == [("published", 1, 5, 9)]


def test_runs_are_spread_and_carried_counts_are_left_out() -> None:
    index = run_entry(DELIVER, 5, 3) + run_entry(SETTLE, 5, 2) + run_entry(DELIVER, 9, 1, at_ms=0)
    assert told(frame(b"", index)) == [
        *(("delivered", 1, seq, AT_MS) for seq in (5, 6, 7)),
        *(("settled", 1, seq, AT_MS) for seq in (5, 6)),
    ]


def test_what_has_no_time_gets_that_of_its_frame() -> None:
    back = struct.pack("<BBHIQQII", RETURN, 1, 2, 3, 5, 0, 70, 0)
    area = struct.pack("<QQ", 6, 7) + b"definition"
    index = back + record_entry(PURGE, 0, 16, queue=4) + record_entry(DEFINE, 16, 10)
    assert told(frame(area, index)) == [
        ("returned", 3, 5, 2),
        *(("purged" if seq == 5 else "spared", 4, seq, 9) for seq in (5, 6, 7)),
        ("defined", 0, 0, 2),
    ]


def test_rows_of_other_queues_and_times_are_left_out() -> None:
    index = run_entry(SETTLE, 1, 1, queue=1) + run_entry(SETTLE, 2, 1, queue=2) + run_entry(SETTLE, 3, 1, AT_MS + 1, 2)
    data = frame(b"", index)
    assert [row[2] for row in told(data, queues=b"\0\0\1")] == [2, 3]
    assert [row[2] for row in told(data, since_ms=AT_MS + 1)] == [3]
    assert [row[2] for row in told(data, until_ms=AT_MS + 1)] == [1, 2]
    assert told(data, queues=b"") == []


def test_a_key_of_deduplication_is_no_row() -> None:
    timed = struct.pack("<BBHIQQQ", TIMED, 0, 0, 0, 11, 0, 0)
    assert told(frame(b"", bytes([DEDUP]) + bytes(31) + timed)) == []


def test_a_survey_cuts_between_frames_and_says_who_is_there() -> None:
    one = frame(b"definition", record_entry(DEFINE, 0, 10) + run_entry(DELIVER, 1, 1, queue=7, consumer=3))
    two = frame(RECORD, record_entry(PUBLISH) + struct.pack("<BBH7I", ALSO, 1, 0, 8, 0, 0, 0, 0, 0, 0))
    survey = Survey(one + two, "segment", 0, len(one + two), SALT)
    assert survey.piece(1)
    assert (survey.start, survey.offset) == (0, len(one))
    assert (survey.queues, survey.consumers, survey.definitions) == ({7}, {3}, [(0, b"definition")])
    assert survey.piece(1)
    assert (survey.start, survey.offset, survey.first_ms, survey.last_ms) == (len(one), len(one + two), 2, 2)
    assert (survey.queues, survey.consumers, survey.definitions) == ({1, 8}, set(), [])
    assert not survey.piece(1)


def test_only_the_end_of_a_live_segment_may_be_torn() -> None:
    whole = frame(b"", run_entry(SETTLE, 1, 1))
    torn = whole + whole[:-1]
    survey = Survey(torn, "segment", 0, len(torn), SALT, may_be_torn=True)
    assert survey.piece(1 << 20)
    assert survey.offset == len(whole)
    assert not survey.piece(1 << 20)
    with pytest.raises(DamagedJournal, match=f"segment .* at offset {len(whole)}"):
        Survey(torn, "segment", 0, len(torn), SALT).piece(1 << 20)


@pytest.mark.parametrize("kind", [PUBLISH, PURGE, DEFINE])
@pytest.mark.parametrize(("offset", "size"), [(1, len(RECORD)), (len(RECORD) + 1, 0), (2**32 - 1, 2), (0, 2**32 - 1)])
def test_an_area_outside_of_the_frame_is_refused(kind: int, offset: int, size: int) -> None:
    with pytest.raises(DamagedJournal, match=r"segment .* contradicts itself at offset 0"):
        told(frame(RECORD, record_entry(kind, offset, size)))


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
        told(frame(record, record_entry(PUBLISH, size=len(record))))


@pytest.mark.parametrize("index", [bytes([ALSO, 1]) + bytes(30), record_entry(PUBLISH) + bytes([ALSO, 8]) + bytes(30)])
def test_more_queues_without_a_publish_or_than_fit_are_refused(index: bytes) -> None:
    with pytest.raises(DamagedJournal):
        told(frame(RECORD, index))


def test_more_queues_belong_to_a_publish_of_the_same_frame() -> None:
    with pytest.raises(DamagedJournal):
        told(frame(RECORD, record_entry(PUBLISH)) + frame(b"", bytes([ALSO, 1]) + bytes(30)))


@pytest.mark.parametrize("kind", [0, 10, 255])
def test_an_entry_of_an_unknown_kind_is_refused(kind: int) -> None:
    data = frame(b"", bytes([kind]) + bytes(31))
    with pytest.raises(UnknownFormat, match=f"kind {kind}"):
        told(data)
    with pytest.raises(UnknownFormat, match=f"kind {kind}"):
        Survey(data, "segment", 0, len(data), SALT).piece(1)


def test_an_encrypted_frame_in_a_plain_segment_is_refused() -> None:
    with pytest.raises(DamagedJournal, match="contradicts itself"):
        told(frame(b"", bytes(16), index_len=0, flags=1))


def test_a_range_outside_of_the_file_is_refused() -> None:
    with pytest.raises(DamagedJournal, match="is cut at offset 48"):
        EventColumns(frame(b"", b""), "segment", 0, 49, SALT)


@given(st.lists(entries, max_size=6), st.booleans())
def test_no_entries_whatever_lead_outside_of_the_frame(index: list[bytes], content: bool) -> None:
    data = frame(RECORD, b"".join(index))
    columns = columns_of(data, content=content)
    with suppress(JournalError):
        while columns.fill(1_000):
            columns.take()
    with suppress(JournalError):
        Survey(data, "segment", 0, len(data), SALT).piece(1)
