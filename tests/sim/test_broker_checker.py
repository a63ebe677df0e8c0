"""The checker of brokers: it must see each kind of damage, and accept what time and a crash may do."""

import pytest

from tests.sim.broker_checker import FANNED_OUT, Records, compare, mistakes
from tests.sim.digest import Digest, Item, Key

PLACE = ("/:q#1", 7)
ITEM = Item(b"content", 0, 0, 2, 1_000, 1, 0)
EMPTY = Digest()
HOLDING = Digest({PLACE: ITEM})


def changed(**fields: object) -> Digest:
    """The message with some other fields."""
    return Digest({PLACE: ITEM._replace(**fields)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "candidates", "kinds"),
    [
        (HOLDING, [HOLDING], []),
        (HOLDING, [EMPTY, HOLDING], []),
        (EMPTY, [HOLDING], ["lost"]),
        (HOLDING, [EMPTY], ["resurrected"]),
        (changed(content=b"damaged"), [HOLDING], ["corrupt"]),
        (changed(expiry_ms=5), [HOLDING], ["corrupt"]),
        (changed(deliveries=0), [HOLDING], ["backwards"]),
        (changed(priority=3), [HOLDING], ["reordered"]),
        (changed(ready_ms=999), [HOLDING], ["reordered"]),
        (EMPTY, [Digest(definitions={("queue", "/", "q"): "{}"})], ["lost"]),
        (Digest(keys={("/:q#1", b"k"): Key(3, 9)}), [EMPTY], ["resurrected"]),
        (Digest(last_seq=6), [Digest(last_seq=7)], ["backwards"]),
        (Digest(last_queue_id=1), [Digest(last_queue_id=2)], ["backwards"]),
        (Digest(last_seq=8), [Digest(last_seq=7)], []),
    ],
)
def test_findings_are_named(found: Digest, candidates: list[Digest], kinds: list[str]) -> None:
    assert [finding.kind for finding in compare(found, candidates)] == kinds


def test_half_a_frame_is_corrupt() -> None:
    both = Digest({PLACE: ITEM, ("/:q#1", 8): ITEM})
    assert [finding.kind for finding in compare(HOLDING, [EMPTY, both])] == ["corrupt"]


def test_what_was_due_when_the_frame_was_sealed_may_still_be_scheduled() -> None:
    sealed = Digest({PLACE: ITEM}, now_ms=2_000)
    assert compare(changed(due_ms=2_000), [sealed]) == []
    assert [finding.kind for finding in compare(changed(due_ms=2_001), [sealed])] == ["corrupt"]


def test_a_key_whose_window_was_over_may_be_remembered_or_not() -> None:
    sealed = Digest(now_ms=2_000)
    assert compare(Digest(keys={("/:q#1", b"k"): Key(3, 2_000)}), [sealed]) == []


def test_a_dead_letter_beside_its_original_is_found() -> None:
    twice = Digest({PLACE: ITEM, ("/:dead#2", 8): ITEM})
    assert {finding.kind for finding in mistakes(twice)} == {"duplicated"}
    fanned = ITEM._replace(content=FANNED_OUT)
    assert mistakes(Digest({PLACE: fanned, ("/:dead#2", 8): fanned})) == []


def test_a_queue_in_disorder_is_found_though_nothing_changed() -> None:
    disorderly = Digest({PLACE: ITEM}, disorder=("/:q#1",))
    assert [finding.kind for finding in Records(HOLDING, encrypted=False).check(disorderly)] == ["reordered"]
