"""The reader of HTTP requests under known and random nonsense, in whatever pieces it comes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.http_corpus import CORPUS, READ, REFUSED
from tests.fuzz.http_reading import check

QUICK = settings(max_examples=200)
# Requests in front of the nonsense, which are good.
BEFORE: dict[str, int] = {
    "length: two": 0,
    "more after the last request": 1,
    "more after a last request with a body": 1,
}


@pytest.mark.parametrize("name", REFUSED)
def test_every_attack_of_the_corpus_is_refused(name: str) -> None:
    outcome = check(REFUSED[name])
    assert outcome.status is not None, outcome
    assert len(outcome.requests) == BEFORE.get(name, 0)


@pytest.mark.parametrize("name", READ)
def test_every_request_of_the_corpus_is_read(name: str) -> None:
    count, data = READ[name]
    outcome = check(data)
    assert outcome.status is None, outcome
    assert len(outcome.requests) == count


@QUICK
@given(st.binary(max_size=300))
def test_random_bytes(data: bytes) -> None:
    check(data)


@QUICK
@given(
    st.lists(st.sampled_from(sorted(CORPUS)), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 20)), max_size=2),
)
def test_damaged_entries_one_after_the_other(
    names: list[str], edits: list[tuple[int, int]], cuts: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(CORPUS[name] for name in names))
    for position, value in edits:
        data[position % len(data)] = value
    for position, count in cuts:
        del data[position % (len(data) + 1) : position % (len(data) + 1) + count]
    check(bytes(data))
