"""The checker: it must see each kind of damage, and accept what a crash may leave."""

import pytest

from tests.sim.checker import Held, Model, Snapshot, compare

KEY = (1, 7)
HELD = Held(b"body", 0, 0, 1, 0)
EMPTY = Snapshot()
HOLDING = Snapshot({KEY: HELD})


def changed(**fields: object) -> Snapshot:
    """The message with some other fields."""
    return Snapshot({KEY: HELD._replace(**fields)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "candidates", "kinds"),
    [
        (HOLDING, [HOLDING], []),
        (EMPTY, [EMPTY, HOLDING], []),
        (HOLDING, [EMPTY, HOLDING], []),
        (EMPTY, [HOLDING], ["lost"]),
        (HOLDING, [EMPTY], ["resurrected"]),
        (changed(content=b"b0dy"), [HOLDING], ["corrupt"]),
        (changed(content=b"b0dy"), [EMPTY, HOLDING], ["corrupt"]),
        (changed(deliveries=0), [HOLDING], ["backwards"]),
        (changed(deliveries=2), [HOLDING], ["corrupt"]),
        (EMPTY, [Snapshot(definitions={b"q"})], ["lost"]),
        (Snapshot(dedup={(1, b"k"): 3}), [EMPTY], ["resurrected"]),
    ],
)
def test_findings_are_named(found: Snapshot, candidates: list[Snapshot], kinds: list[str]) -> None:
    assert [finding.kind for finding in compare(found, candidates)] == kinds


def test_half_a_frame_is_corrupt() -> None:
    both = Snapshot({(1, 7): HELD, (1, 8): HELD})
    assert [finding.kind for finding in compare(HOLDING, [EMPTY, both])] == ["corrupt"]


def test_an_unconfirmed_frame_may_be_there_or_not() -> None:
    model = Model()
    model.messages[KEY] = HELD
    model.seal(5, model.snapshot())
    assert model.check(EMPTY) == model.check(HOLDING) == []


def test_a_confirmed_frame_must_be_there() -> None:
    model = Model()
    model.messages[KEY] = HELD
    model.seal(5, model.snapshot())
    model.confirm(4)
    assert model.check(EMPTY) == []
    model.confirm(5)
    assert [finding.kind for finding in model.check(EMPTY)] == ["lost"]


def test_what_no_frame_holds_yet_must_not_be_there() -> None:
    model = Model()
    model.messages[KEY] = HELD
    assert [finding.kind for finding in model.check(HOLDING)] == ["resurrected"]
