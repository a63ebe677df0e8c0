"""The bytes of blocks: checksums that agree with the journal's, and nothing read outside of them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.storage.journal.records import crc32c
from leveret.storage.stream.blocks import (
    BLOCK_BYTES_MAX,
    HEAD_BYTES,
    MAGIC,
    Appender,
    block_bytes,
    read_head,
    records_in,
)
from leveret.storage.stream.index import Producers

SALT = 77


def block_of(*contents: bytes, filter_value: bytes = b"") -> bytes:
    """The block of some records."""
    appender = Appender(5, 0, 1 << 20, Producers())
    for content in contents:
        appender.append(1_000, b"\1x\1y", content, 0, filter_value)
    block = appender.oldest()
    assert block is not None
    return bytes(block.finish(SALT, 3))


def sealed(data: bytes) -> bytes:
    """A block with the checksum that its bytes have now."""
    return data[:4] + struct.pack("<I", crc32c(data[8:])) + data[8:]


def test_the_checksum_is_that_of_all_that_follows_it() -> None:
    data = block_of(b"one", b"two")
    assert sealed(data) == data
    assert data.startswith(MAGIC)


def test_a_header_says_what_the_block_holds() -> None:
    data = b"before" + block_of(b"one", b"two")
    head = read_head(data, 6, SALT)
    assert head is not None
    assert (head.first, head.count, head.synced, head.end) == (5, 2, 3, len(data))
    assert (head.first_ms, head.last_ms, head.names_producers) == (1_000, 1_000, False)


def test_a_block_without_a_filter_value_need_not_be_looked_into() -> None:
    head = read_head(block_of(b"one", filter_value=b"eu"), 0, SALT)
    assert head is not None
    assert head.may_match([b"us", b"eu"], match_unfiltered=False)
    assert not head.may_match([b"us"], match_unfiltered=True)
    assert not head.may_match([], match_unfiltered=True)


@given(st.data())
def test_a_changed_bit_is_noticed(data: st.DataObject) -> None:
    block = bytearray(block_of(b"one", b"two"))
    block[data.draw(st.integers(0, len(block) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert read_head(bytes(block), 0, SALT) is None


@pytest.mark.parametrize("end", [0, 10, 63, 64, -1])
def test_a_block_that_is_cut_is_none(end: int) -> None:
    assert read_head(block_of(b"one")[:end], 0, SALT) is None


def test_a_block_of_another_segment_is_none() -> None:
    assert read_head(block_of(b"one"), 0, SALT + 1) is None


def test_no_block_is_larger_than_the_limit() -> None:
    data = bytearray(block_of(b"one"))
    struct.pack_into("<I", data, 8, BLOCK_BYTES_MAX - HEAD_BYTES)
    assert block_bytes(bytes(data), 0) == BLOCK_BYTES_MAX
    struct.pack_into("<I", data, 8, BLOCK_BYTES_MAX - HEAD_BYTES + 1)
    assert block_bytes(bytes(data), 0) == 0


@given(st.binary(max_size=200), st.integers(0, 10))
def test_whatever_a_good_checksum_covers_is_read_within_its_bounds(records: bytes, count: int) -> None:
    header = bytearray(block_of(b"one")[:HEAD_BYTES])
    struct.pack_into("<II", header, 8, len(records), count)
    data = sealed(bytes(header) + records)
    head = read_head(data, 0, SALT)
    assert head is not None
    found = records_in(data, head)
    assert found is None or sum(28 + len(record.route) + len(record.content) for record in found) <= len(records)


@pytest.mark.parametrize(("at", "value"), [(0, 0xFFFFFFFF), (0, 0), (0, 27), (4, 0xFFFFFFFF), (4, 4), (24, 0xFFFF)])
def test_lengths_that_contradict_each_other_are_refused(at: int, value: int) -> None:
    data = bytearray(block_of(b"one"))
    struct.pack_into("<H" if at == 24 else "<I", data, HEAD_BYTES + at, value)
    again = sealed(bytes(data))
    head = read_head(again, 0, SALT)
    assert head is not None
    assert records_in(again, head) is None
