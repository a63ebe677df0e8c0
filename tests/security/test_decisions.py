"""Decisions that are remembered: until rights change, and not without bound."""

import pytest

from leveret.security import authorisation
from leveret.security.authorisation import Decisions


def test_what_was_allowed_is_remembered_until_rights_change() -> None:
    decisions = Decisions()
    assert not decisions.has("a", 1)
    decisions.add("a")
    assert decisions.has("a", 1)
    assert not decisions.has("b", 1)
    assert not decisions.has("a", 2)
    assert not decisions.has("a", 1)


def test_a_decision_by_older_rights_is_forgotten_with_them() -> None:
    decisions = Decisions()
    assert not decisions.has("a", 1)
    # Meanwhile another thread changes the rights: their generation is 2.
    decisions.add("a")
    assert not decisions.has("a", 2)


def test_decisions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorisation, "DECISIONS_MAX", 2)
    decisions = Decisions()
    for asked in ("a", "b"):
        assert not decisions.has(asked, 1)
        decisions.add(asked)
    assert not decisions.has("a", 1), "all are forgotten at the limit"
