"""Login responses: what is understood, what is refused, and that no error repeats a secret."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.tables import encode_table
from leveret.protocols.amqp.handshake import MECHANISMS, NAME_BYTES_MAX, RESPONSE_BYTES_MAX, parse_response
from leveret.security.authentication import Credentials
from leveret.wire.replies import ProtocolError, Reply

LOGIN = encode_table({"LOGIN": "guest", "PASSWORD": "pass"})[4:]


def refused(mechanism: str, response: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        parse_response(mechanism, response)
    return caught.value


@pytest.mark.parametrize(
    ("mechanism", "response", "credentials"),
    [
        ("PLAIN", b"\0guest\0pass", Credentials("guest", b"pass")),
        ("PLAIN", "\0jürgen\0".encode(), Credentials("jürgen", b"")),
        ("PLAIN", b"\0guest\0\xff\xfe", Credentials("guest", b"\xff\xfe")),
        ("AMQPLAIN", LOGIN, Credentials("guest", b"pass")),
        ("AMQPLAIN", b"\x05LOGINS\0\0\0\1g\x08PASSWORDS\0\0\0\1\xff", Credentials("g", b"\xff")),
        ("EXTERNAL", b"", Credentials("")),
        ("EXTERNAL", b"client", Credentials("client")),
    ],
)
def test_responses_that_are_understood(mechanism: str, response: bytes, credentials: Credentials) -> None:
    assert parse_response(mechanism, response) == credentials


@pytest.mark.parametrize(
    ("mechanism", "response"),
    [
        ("PLAIN", b""),
        ("PLAIN", b"guest\0secret"),
        ("PLAIN", b"other\0guest\0secret"),
        ("PLAIN", b"\0guest\0secret\0"),
        ("PLAIN", b"\0\xff\0secret"),
        ("AMQPLAIN", b""),
        ("AMQPLAIN", LOGIN[:-1]),
        ("AMQPLAIN", encode_table({"LOGIN": "guest"})[4:]),
        ("AMQPLAIN", encode_table({"LOGIN": 1, "PASSWORD": "secret"})[4:]),
        ("EXTERNAL", b"\xff"),
    ],
)
def test_responses_that_are_refused(mechanism: str, response: bytes) -> None:
    error = refused(mechanism, response)
    assert error.text == f"SYNTAX_ERROR - invalid {mechanism} response"


def test_an_unknown_mechanism_is_refused_and_the_known_are_named() -> None:
    error = refused("CRAM-MD5", b"")
    assert error.code == Reply.COMMAND_INVALID
    assert all(mechanism in error.text for mechanism in MECHANISMS)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_response_has_a_largest_size(mechanism: str) -> None:
    assert f"at most {RESPONSE_BYTES_MAX} bytes" in refused(mechanism, b"x" * (RESPONSE_BYTES_MAX + 1)).text


def test_a_name_has_a_largest_size() -> None:
    assert parse_response("EXTERNAL", b"x" * NAME_BYTES_MAX).name == "x" * NAME_BYTES_MAX
    assert refused("EXTERNAL", b"x" * (NAME_BYTES_MAX + 1)).code == Reply.SYNTAX_ERROR


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(parse_response("PLAIN", b"\0guest\0secret"))


@given(st.sampled_from(sorted(MECHANISMS)), st.binary(max_size=100))
def test_any_bytes_are_understood_or_refused(mechanism: str, response: bytes) -> None:
    with suppress(ProtocolError):
        assert len((parse_response(mechanism, response).name or "").encode()) <= len(response)
