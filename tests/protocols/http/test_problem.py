"""Refusals of the core as problem+json."""

import inspect
import json

import pytest

from leveret.core import errors
from leveret.protocols.http.problem import STATUSES, problem
from leveret.protocols.http.request import Refusal


def test_every_error_of_the_core_has_a_status() -> None:
    assert set(STATUSES) == {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}


def test_a_problem_says_what_and_why() -> None:
    answer = problem(errors.QueueNotFound("no queue 'q'"))
    assert (answer.status, answer.content_type) == (404, "application/problem+json")
    assert json.loads(answer.body) == {
        "type": "about:blank",
        "title": "Queue not found",
        "status": 404,
        "detail": "no queue 'q'",
    }


def test_a_subclass_from_elsewhere_means_what_its_base_means() -> None:
    class Elsewhere(errors.InvalidArgument):
        pass

    assert problem(Elsewhere("x")).status == 400


@pytest.mark.parametrize("error", [errors.QueueFull("x"), errors.BrokerClosed("x"), Refusal(429, "x")])
def test_what_may_be_tried_again_says_when(error: errors.LeveretError) -> None:
    assert ("Retry-After", "1") in problem(error).headers


def test_a_refusal_keeps_its_headers() -> None:
    answer = problem(Refusal(429, "x", (("Retry-After", "7"),)))
    assert list(answer.headers) == [("Retry-After", "7")]
    assert json.loads(answer.body)["title"] == "Too Many Requests"
