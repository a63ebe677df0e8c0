"""Every refusal, word by word, in both protocols."""

from typing import Any

import pytest

from leveret.core import errors
from leveret.protocols.sqs.errors import FAULTS, KINDS
from tests.protocols.sqs.golden import GOLDEN, check, prepare
from tests.protocols.sqs.refusals import Row
from tests.protocols.sqs.world import World


@pytest.fixture
def prepared() -> Any:
    """A world with the queues of the table."""
    world = World(in_flight_max=1)
    prepare(world)
    yield world
    world.end()


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: f"{case.action}-{case.text[:40]}")
def test_a_refusal_in_both_protocols(prepared: World, case: Row) -> None:
    check(prepared, case)


def test_every_refusal_of_the_core_has_a_kind() -> None:
    known = {
        value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, errors.LeveretError)
    }
    assert set(KINDS) == known
    assert set(KINDS.values()) <= set(FAULTS)


def test_what_is_no_json(world: World) -> None:
    for body in (b"", b"{", b"[]", b'{"a":' * 100_000, b"\xff"):
        request = world.json_of("SendMessage", body)
        answer = world.handle(request)[0]
        shape = answer.json["__type"].partition("#")[2]
        assert (answer.status, shape) == (
            400,
            "MissingRequiredParameterException" if not body else "SerializationException",
        )


@pytest.mark.parametrize("parameters", [{"QueueUrl": 1}, {"QueueUrl": "orders", "MessageBody": ["a"]}])
def test_a_parameter_of_another_type(prepared: World, parameters: dict[str, Any]) -> None:
    answer = prepared.json("SendMessage", **parameters)
    assert (answer.status, answer.json["__type"]) == (400, "com.amazonaws.sqs#SerializationException")


def test_actions_that_are_not_known(world: World) -> None:
    answer = world.json("Fly")
    assert (answer.status, answer.json["__type"]) == (404, "com.amazonaws.sqs#UnknownOperationException")
    other = world.query("Fly")
    assert (other.status, other.text("Error/Code")) == (400, "InvalidAction")
    assert other.text("Error/Message") == "The action Fly is not valid for this endpoint."
