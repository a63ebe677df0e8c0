"""Reply codes and texts, and the refusals of the core as such."""

import inspect

import pytest

from leveret.core import errors
from leveret.wire.codec import encode
from leveret.wire.methods import ConnectionClose
from leveret.wire.replies import REPLIES, ProtocolError, Reply, refusal


def test_every_error_of_the_core_has_a_reply() -> None:
    assert set(REPLIES) == {kind for _, kind in inspect.getmembers(errors, inspect.isclass)}


def test_the_text_names_the_code() -> None:
    error = refusal(errors.QueueNotFound("no queue 'q' in vhost '/'"))
    assert (error.code, error.text) == (404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert not error.closes_connection


def test_an_unknown_vhost_closes_the_connection() -> None:
    error = refusal(errors.VhostNotFound("vhost x not found"))
    assert (error.code, error.text, error.closes_connection) == (530, "NOT_ALLOWED - vhost x not found", True)


def test_a_subclass_from_elsewhere_means_what_its_base_means() -> None:
    class Elsewhere(errors.InvalidArgument):
        pass

    assert refusal(Elsewhere("x")).code == Reply.PRECONDITION_FAILED


def test_broken_code_tells_a_client_nothing() -> None:
    error = refusal(ZeroDivisionError("secret"))
    assert error.code == Reply.INTERNAL_ERROR
    assert "secret" not in error.text


def test_a_protocol_error_stays_what_it_is() -> None:
    error = ProtocolError(Reply.FRAME_ERROR, "x")
    assert refusal(error) is error


@pytest.mark.parametrize("explanation", ["x" * 300, "é" * 200, "€" * 100, "\udcff" * 300])
def test_a_long_text_is_cut_to_a_short_string(explanation: str) -> None:
    error = ProtocolError(Reply.NOT_FOUND, explanation)
    assert error.text.endswith("...")
    assert encode(ConnectionClose(error.code, error.text))


def test_a_text_that_just_fits_is_whole() -> None:
    explanation = "x" * (255 - len("NOT_FOUND - "))
    assert ProtocolError(Reply.NOT_FOUND, explanation).text == f"NOT_FOUND - {explanation}"


@pytest.mark.parametrize("code", [code for code in Reply if code >= 500])
def test_protocol_violations_close_the_connection(code: Reply) -> None:
    assert ProtocolError(code, "").closes_connection
