"""Connections under known and random nonsense, from every state; scripts of methods against a broker with a journal."""

from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.arena import fight
from tests.fuzz.corpus import CORPUS
from tests.fuzz.scripts import play
from tests.fuzz.starts import STARTS, feed

QUICK = settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
READS = 3  # ways to cut an input


@pytest.mark.parametrize("start", range(len(STARTS)), ids=list(STARTS))
def test_every_entry_of_the_corpus_is_answered(start: int) -> None:
    for number, data in enumerate(CORPUS.values()):
        fight(partial(feed, data=bytes([start, number % READS]) + data))


@QUICK
@given(st.integers(0, len(STARTS) - 1), st.integers(0, 4), st.binary(max_size=200))
def test_random_bytes(start: int, reads: int, data: bytes) -> None:
    fight(lambda arena: feed(arena, bytes([start, reads]) + data))


@QUICK
@given(
    st.integers(0, len(STARTS) - 1),
    st.integers(0, 4),
    st.lists(st.sampled_from(sorted(CORPUS)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3),
)
def test_damaged_entries_one_after_the_other(
    start: int, reads: int, names: list[str], edits: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(CORPUS[name] for name in names))
    for position, value in edits:
        data[position % len(data)] = value
    fight(lambda arena: feed(arena, bytes([start, reads]) + bytes(data)))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.binary(min_size=20, max_size=300))
def test_a_script_of_methods_leaves_the_journal_as_the_broker(script: bytes) -> None:
    fight(lambda arena: play(arena, script), journaled=True)
