import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.storage.journal.records import crc32c


def bitwise(data: bytes, crc: int = 0) -> int:
    """CRC-32C by its definition."""
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("portable", [False, True])
def test_crc32c_of_the_check_string(portable: bool) -> None:
    assert crc32c(b"123456789", portable=portable) == 0xE3069283


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1))
def test_both_ways_follow_the_definition(data: bytes, crc: int) -> None:
    assert crc32c(data, crc) == crc32c(data, crc, portable=True) == bitwise(data, crc)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_crc32c_can_be_continued(first: bytes, second: bytes) -> None:
    assert crc32c(second, crc32c(first)) == crc32c(first + second)
