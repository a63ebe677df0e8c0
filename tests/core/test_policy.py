"""Policies: which applies, and what a queue's settings come to."""

import gc
from dataclasses import fields
from typing import Any

import pytest

from leveret.core import policy as module
from leveret.core.arguments import ARGUMENTS, Backoff
from leveret.core.errors import InvalidArgument
from leveret.core.policy import Policy, QueuePolicy, best, effective


def settings(
    arguments: dict[str, Any], definition: dict[str, Any], operator: dict[str, Any] | None = None
) -> QueuePolicy:
    policies = [Policy("p", ".*", definition=definition)]
    operators = [Policy("o", ".*", definition=operator or {}, operator=True)]
    return effective(arguments, "q", "classic", policies, operators)


def test_without_anything_the_defaults_hold() -> None:
    assert effective({}, "q") == QueuePolicy()
    assert effective({}, "q", "quorum") == QueuePolicy(queue_type="quorum", delivery_limit=20, max_priority=31)


def test_each_argument_has_a_field_to_go_to() -> None:
    known = {each.name for each in fields(QueuePolicy)} | {f"backoff_{each.name}" for each in fields(Backoff)}
    assert {row.field for row in ARGUMENTS.values() if row.field} <= known


def test_an_argument_beats_the_policy_and_the_policy_the_default() -> None:
    merged = settings({"x-overflow": "reject-publish"}, {"overflow": "drop-head", "dead-letter-exchange": "dlx"})
    assert (merged.overflow, merged.dead_letter_exchange) == ("reject-publish", "dlx")


@pytest.mark.parametrize("key", ["expires", "message-ttl", "max-length", "max-length-bytes"])
@pytest.mark.parametrize(("argument", "by_policy"), [(5, 9), (9, 5)])
def test_the_minimum_of_argument_and_policy_holds(key: str, argument: int, by_policy: int) -> None:
    merged = settings({f"x-{key}": argument}, {key: by_policy})
    assert getattr(merged, str(ARGUMENTS[f"x-{key}"].field)) == 5


@pytest.mark.parametrize(
    ("arguments", "definition", "expected"),
    [({}, {}, 7), ({"x-max-length": 9}, {}, 7), ({"x-max-length": 9}, {"max-length": 5}, 5)],
)
def test_an_operator_policy_caps(arguments: dict[str, Any], definition: dict[str, Any], expected: int) -> None:
    assert settings(arguments, definition, {"max-length": 7}).max_length == expected


def test_an_operator_policy_caps_a_limit_that_was_switched_off() -> None:
    assert settings({"x-delivery-limit": -1}, {}, {"delivery-limit": 3}).delivery_limit == 3
    assert settings({"x-delivery-limit": 2}, {}, {"delivery-limit": -1}).delivery_limit == 2


def test_a_quorum_queue_can_switch_its_delivery_limit_off() -> None:
    assert effective({"x-delivery-limit": -1}, "q", "quorum").delivery_limit is None
    assert effective({}, "q", "quorum", [Policy("p", "q", definition={"delivery-limit": 4})]).delivery_limit == 4


def test_the_parts_of_a_backoff_come_together() -> None:
    merged = settings({"x-retry-backoff": "exponential"}, {"retry-backoff-max": 5_000, "retry-backoff-jitter": 0.5})
    assert merged.backoff == Backoff("exponential", max_ms=5_000, jitter=0.5)
    assert settings({"x-retry-backoff": [1, 2]}, {}).backoff == Backoff("list", list_ms=(1, 2))


def test_a_policy_for_another_type_of_queue_leaves_out_what_does_not_apply() -> None:
    merged = effective({}, "q", "classic", [Policy("p", "q", definition={"dead-letter-strategy": "at-least-once"})])
    assert merged == QueuePolicy()


@pytest.mark.parametrize("operator", [False, True])
def test_settings_of_rabbitmq_that_mean_nothing_here_pass(operator: bool) -> None:
    definition = {"ha-mode": "all", "queue-mode": "lazy", "max-length": 5}
    definition = {key: value for key, value in definition.items() if not (operator and key == "queue-mode")}
    policy = Policy("p", "q", definition=definition, operator=operator)
    assert policy.settings("classic") == {"max_length": 5}
    assert Policy.from_dict(policy.to_dict()) == policy


def test_the_highest_priority_wins_then_the_name() -> None:
    policies = [Policy("c", "^q", 1), Policy("b", "^q", 5), Policy("a", "^q", 5), Policy("z", "^other", 9)]
    assert best(policies, "classic", "q1") == policies[2]
    assert best(policies, "classic", "none") is None


@pytest.mark.parametrize(
    ("apply_to", "kinds"),
    [
        ("all", {"classic", "quorum", "stream", "exchange"}),
        ("queues", {"classic", "quorum", "stream"}),
        ("classic_queues", {"classic"}),
        ("quorum_queues", {"quorum"}),
        ("streams", {"stream"}),
        ("exchanges", {"exchange"}),
    ],
)
def test_apply_to(apply_to: str, kinds: set[str]) -> None:
    policy = Policy("p", "^o", apply_to=apply_to)
    assert {kind for kind in ("classic", "quorum", "stream", "exchange") if policy.matches(kind, "orders")} == kinds


@pytest.mark.parametrize(
    ("named", "text"),
    [
        ({"pattern": "("}, "not a regular expression"),
        ({"pattern": "a" * 1_001}, "1001 characters, the limit is 1000"),
        ({"pattern": 5}, "as a string"),
        ({"name": "n" * 256}, "policy name has 256 bytes"),
        ({"name": None}, "policy name is a string"),
        ({"apply_to": "nothing"}, "apply-to is one of all, queues"),
        ({"priority": "high"}, "is an integer"),
        ({"priority": 2**31}, "is an integer"),
        ({"definition": []}, "is an object of settings"),
        ({"definition": {"odd": 1}}, "'odd' is not a recognised policy setting"),
        ({"definition": {"max-priority": 5}}, "'max-priority' is not a recognised policy setting"),
        ({"definition": {"expires": 0}}, "invalid value of 'expires' in policy 'p': {value_zero,0}"),
        ({"definition": {"alternate-exchange": 1}}, "invalid value of 'alternate-exchange'"),
        ({"definition": {"overflow": "drop-head"}, "operator": True}, "cannot be set by an operator policy"),
        ({"definition": {"alternate-exchange": "x"}, "operator": True}, "cannot be set by an operator policy"),
    ],
)
def test_a_policy_that_cannot_work_is_refused(named: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        Policy(**{"name": "p", "pattern": ".*", **named})
    assert text in str(refusal.value)


def test_a_policy_survives_its_dictionary() -> None:
    policy = Policy("p", "^q", 3, "queues", {"retry-backoff": [1, 2], "message-ttl": 5})
    assert Policy.from_dict(policy.to_dict()) == policy


def test_equal_settings_are_one_object_and_unused_ones_are_forgotten() -> None:
    kept = effective({"x-max-length": 12_345}, "a")
    assert effective({"x-max-length": 12_345, "mine": 1}, "b") is kept
    assert effective({"x-max-length": 12_346}, "c") is not kept
    before = len(module._interned)
    del kept
    gc.collect()
    assert len(module._interned) < before


def test_a_stored_pattern_that_cannot_be_used_applies_to_nothing() -> None:
    stored = {**Policy("p", ".*", definition={"max-length": 5}).to_dict(), "pattern": r"(a)\1"}
    policy = Policy.from_dict(stored)
    assert not policy.matches("classic", "aa")
    assert policy.to_dict() == stored
    assert "reference to a group" in policy.shown()["problem"]
    assert Policy("p", ".*").shown() == Policy("p", ".*").to_dict()


def test_a_pattern_that_backtracks_for_ever_elsewhere() -> None:
    """As found in a policy that a user had made: the broker stood still at each declaration, and at recovery."""
    policy = Policy("p", "^p.(a+)+$", definition={"max-length": 5})
    assert not policy.matches("classic", "px" + "a" * 250 + "b")
    assert policy.matches("classic", "px" + "a" * 250)
