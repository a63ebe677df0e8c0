"""Links between nodes under known and random nonsense, before the handshake is done and after it."""

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.peer_arena import CORPUS, READS_BYTES, STARTS, PeerArena

QUICK = settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def arena() -> Iterator[PeerArena]:
    made = PeerArena()
    yield made
    made.close()


@pytest.mark.parametrize("start", range(len(STARTS)), ids=list(STARTS))
def test_every_entry_of_the_corpus_is_answered(arena: PeerArena, start: int) -> None:
    for data in CORPUS.values():
        for reads in range(len(READS_BYTES)):
            arena.fight(bytes([start, reads]) + data)


@QUICK
@given(start=st.integers(0, len(STARTS) - 1), reads=st.integers(0, 4), data=st.binary(max_size=300))
def test_random_bytes(arena: PeerArena, start: int, reads: int, data: bytes) -> None:
    arena.fight(bytes([start, reads]) + data)


@QUICK
@given(
    start=st.integers(0, len(STARTS) - 1),
    reads=st.integers(0, 4),
    names=st.lists(st.sampled_from(sorted(CORPUS)), min_size=1, max_size=4),
    edits=st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 255)), max_size=3),
)
def test_damaged_entries_one_after_the_other(
    arena: PeerArena, start: int, reads: int, names: list[str], edits: list[tuple[int, int]]
) -> None:
    data = bytearray(b"".join(CORPUS[name] for name in names))
    for position, value in edits:
        data[position % len(data)] = value
    arena.fight(bytes([start, reads]) + bytes(data))
