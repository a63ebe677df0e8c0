"""Signatures: botocore's are taken, and nothing that was changed on its way."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest
from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from leveret.core.errors import InvalidArgument, NotFound, PreconditionFailed, TooMany
from leveret.protocols.http.request import HttpPeer, Request
from leveret.security import logins
from leveret.security.access import EVERYTHING
from leveret.security.keys import KEYS_PER_USER_MAX
from leveret.security.logins import FREE_MAX
from tests.protocols.sqs.world import Answer, World

KEY, SECRET = "AKIAEXAMPLE", "open sesame".replace(" ", "/")
URL = "http://sqs.test/"
HEADERS = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS.ListQueues", "Host": "sqs.test"}


@pytest.fixture
def signed_world() -> Iterator[World]:
    """A service that wants signatures, with a user who has a key."""
    world = World(auth=True)
    with world.broker.runtime:
        world.access.add_user("ada", "")
        world.access.set_permission("ada", "/", EVERYTHING, EVERYTHING, EVERYTHING)
        world.access.add_key("ada", KEY, SECRET)
    yield world
    world.end()


def sign(
    world: World, *, key: str = KEY, secret: str = SECRET, late_s: int = 0, service: str = "sqs", **sent: Any
) -> AWSRequest:
    """A request as botocore signs it at the time of the world."""
    headers = {**HEADERS, **sent.get("headers", {})}
    request = AWSRequest("POST", URL, data=sent.get("body", b"{}"), headers=headers)
    with at(world, late_s):
        SigV4Auth(Credentials(key, secret), service, "eu-west-1").add_auth(request)
    return request


class at:
    """The clock of botocore at the time of a world."""

    def __init__(self, world: World, late_s: int = 0) -> None:
        now = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) - timedelta(seconds=late_s)
        self._patch = patch("botocore.auth.get_current_datetime", return_value=now)

    def __enter__(self) -> None:
        self._patch.start()

    def __exit__(self, *error: object) -> None:
        self._patch.stop()


def deliver(world: World, signed: AWSRequest, **changes: Any) -> Answer:
    """What the service answers to a signed request, or to one that was changed on its way."""
    headers = {name.lower().encode(): str(value).encode() for name, value in signed.headers.items()}
    headers |= changes.get("headers", {})
    for name in changes.get("without", ()):
        del headers[name]
    request = Request(changes.get("method", "POST"), changes.get("target", b"/"), headers, HttpPeer("127.0.0.1", 1))
    request.body = changes.get("body", signed.data)
    return world.handle(request)[0]


def test_a_signed_request_is_taken(signed_world: World) -> None:
    assert deliver(signed_world, sign(signed_world)).status == 200


def test_the_sender_of_a_message_is_its_user(signed_world: World) -> None:
    with signed_world.broker.runtime:
        signed_world.broker.runtime.core.declare_queue("/", "orders", {})
    for action, body in (
        ("SendMessage", b'{"QueueUrl":"orders","MessageBody":"a"}'),
        ("ReceiveMessage", b'{"QueueUrl":"orders","AttributeNames":["SenderId"]}'),
    ):
        request = sign(signed_world, headers={"X-Amz-Target": f"AmazonSQS.{action}"}, body=body)
        answer = deliver(signed_world, request)
    assert answer.json["Messages"][0]["Attributes"] == {"SenderId": "ada"}


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b'{"QueueNamePrefix":"b"}'},
        {"body": b""},
        {"method": "PUT"},
        {"target": b"/other"},
        {"target": b"/?a=b"},
        {"headers": {b"x-amz-target": b"AmazonSQS.DeleteQueue"}},
        {"headers": {b"host": b"other.test"}},
        {"headers": {b"content-type": b"text/plain"}},
    ],
)
def test_a_request_that_was_changed_is_refused(signed_world: World, changes: dict[str, Any]) -> None:
    answer = deliver(signed_world, sign(signed_world), **changes)
    code = answer.json["__type"] if answer.body.startswith(b"{") else answer.text("Error/Code")
    assert (answer.status, str(code).partition("#")[2] or code) == (403, "InvalidSignatureException")


@pytest.mark.parametrize("size", [2_047, 2_048, 10_000, 65_536, 65_537, 200_000])
def test_bodies_of_all_sizes_are_checked_to_their_end(signed_world: World, size: int) -> None:
    body = b'{"QueueNamePrefix":"none"}'.ljust(size)
    signed = sign(signed_world, body=body)
    assert deliver(signed_world, signed).status == 200
    for place in (size // 2, size - 1):
        assert deliver(signed_world, signed, body=body[:place] + b"\n" + body[place + 1 :]).status == 403


@pytest.mark.parametrize(
    ("how", "shape"),
    [
        ({"key": "AKIAOTHER"}, "UnrecognizedClientException"),
        ({"secret": "guess"}, "InvalidSignatureException"),
        ({"late_s": 901}, "RequestExpiredException"),
        ({"late_s": -901}, "RequestExpiredException"),
        ({"service": "s3"}, "InvalidSignatureException"),
    ],
)
def test_a_signature_that_is_not_ours(signed_world: World, how: dict[str, Any], shape: str) -> None:
    answer = deliver(signed_world, sign(signed_world, **how))
    assert (answer.status, answer.json["__type"]) == (403, f"com.amazonaws.sqs#{shape}")


@pytest.mark.parametrize("late_s", [900, -900])
def test_clocks_may_differ_by_a_quarter_of_an_hour(signed_world: World, late_s: int) -> None:
    assert deliver(signed_world, sign(signed_world, late_s=late_s)).status == 200


def test_no_signature_at_all(signed_world: World) -> None:
    answer = deliver(signed_world, sign(signed_world), without=[b"authorization"])
    assert (answer.status, answer.headers["x-amzn-query-error"]) == (403, "MissingAuthenticationToken;Sender")


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"Basic Z3Vlc3Q6Z3Vlc3Q=",
        b"AWS4-HMAC-SHA256 Credential=a/b/c/sqs/aws4_request, SignedHeaders=host, Signature=00",
        b"AWS4-HMAC-SHA256 " + b"Credential=" * 1_000,
    ],
)
def test_headers_that_are_no_signature(signed_world: World, header: bytes) -> None:
    answer = deliver(signed_world, sign(signed_world), headers={b"authorization": header})
    assert (answer.status, answer.headers["x-amzn-query-error"]) == (403, "IncompleteSignature;Sender")


def test_the_action_has_to_be_signed(signed_world: World) -> None:
    request = AWSRequest("POST", URL, data=b"{}", headers={"Host": "sqs.test"})
    with at(signed_world):
        SigV4Auth(Credentials(KEY, SECRET), "sqs", "us-east-1").add_auth(request)
    answer = deliver(signed_world, request, headers={b"x-amz-target": b"AmazonSQS.ListQueues"})
    assert answer.headers["x-amzn-query-error"] == "IncompleteSignature;Sender"


def test_a_body_may_be_left_unsigned_by_those_who_say_so(signed_world: World) -> None:
    request = sign(signed_world, headers={"X-Amz-Content-SHA256": "UNSIGNED-PAYLOAD"})
    assert deliver(signed_world, request, body=b'{"QueueNamePrefix":"x"}').status == 200


# Links


def link(world: World, expires_s: int = 60, query: str = "Action=ListQueues&QueueNamePrefix=a%20b%2Bc") -> bytes:
    request = AWSRequest("GET", f"{URL}?{query}", headers={"Host": "sqs.test"})
    with at(world):
        SigV4QueryAuth(Credentials(KEY, SECRET), "sqs", "us-east-1", expires=expires_s).add_auth(request)
    return str(request.prepare().url).removeprefix("http://sqs.test").encode()


def follow(world: World, target: bytes) -> Answer:
    return world.handle(Request("GET", target, {b"host": b"sqs.test"}, HttpPeer("127.0.0.1", 1)))[0]


def test_a_signed_link_is_good_until_it_expires(signed_world: World) -> None:
    target = link(signed_world, 60)
    assert follow(signed_world, target).status == 200
    signed_world.later(60)
    assert follow(signed_world, target).status == 200
    signed_world.later(1)
    assert follow(signed_world, target).text("Error/Code") == "RequestExpired"


@pytest.mark.parametrize("change", [(b"ListQueues", b"DeleteQueue"), (b"Expires=60", b"Expires=9999"), (b"%20", b"x")])
def test_a_link_that_was_changed(signed_world: World, change: tuple[bytes, bytes]) -> None:
    target = link(signed_world)
    assert change[0] in target
    assert follow(signed_world, target.replace(*change)).text("Error/Code") == "SignatureDoesNotMatch"


@pytest.mark.parametrize("part", [b"X-Amz-Credential", b"X-Amz-Algorithm", b"X-Amz-Expires", b"X-Amz-SignedHeaders"])
def test_a_link_without_a_part(signed_world: World, part: bytes) -> None:
    answer = follow(signed_world, link(signed_world).replace(part, b"X-Other"))
    assert answer.text("Error/Code") == "IncompleteSignature"


@pytest.mark.parametrize("signature", [b"", b"%ff", b"0" * 63, b"\xe4" * 64])
def test_a_link_whose_signature_is_none(signed_world: World, signature: bytes) -> None:
    target = link(signed_world).partition(b"&X-Amz-Signature=")[0] + b"&X-Amz-Signature=" + signature
    assert follow(signed_world, target).text("Error/Code") == "IncompleteSignature"


@pytest.mark.parametrize(
    "added", [{b"x-amz-target": b"AmazonSQS.DeleteQueue"}, {b"x-amz-content-sha256": b"UNSIGNED-PAYLOAD"}]
)
def test_nobody_can_make_something_else_of_a_link(signed_world: World, added: dict[bytes, bytes]) -> None:
    headers = {b"host": b"sqs.test", **added}
    answer = signed_world.handle(Request("GET", link(signed_world), headers, HttpPeer("127.0.0.1", 1)))[0]
    assert answer.status == 403
    assert b"IncompleteSignature" in answer.body


# Keys


def test_keys_last_and_go_with_their_user(signed_world: World) -> None:
    with signed_world.broker.runtime as core:
        signed_world.access.add_key("ada", "AKIASECOND", "x")
        again = type(signed_world.access)(core, None)
        assert {key.id for key in again.access_keys} == {KEY, "AKIASECOND"}
        assert "sesame" not in repr(again.access_keys.get(KEY))
        signed_world.access.delete_user("ada", force=True)
        assert not list(type(signed_world.access)(core, None).access_keys)
    assert deliver(signed_world, sign(signed_world)).status == 403


@pytest.mark.parametrize(
    ("id", "secret"), [("", "x"), ("a b", "x"), ("A" * 129, "x"), ("A", ""), ("A", "ü"), ("A", "x" * 257)]
)
def test_keys_that_nobody_could_sign_with(signed_world: World, id: str, secret: str) -> None:
    with signed_world.broker.runtime, pytest.raises(InvalidArgument):
        signed_world.access.add_key("ada", id, secret)


def test_the_limits_of_keys(signed_world: World) -> None:
    with signed_world.broker.runtime:
        with pytest.raises(PreconditionFailed):
            signed_world.access.add_key("ada", KEY, "x")
        with pytest.raises(NotFound):
            signed_world.access.add_key("nobody", "AKIA", "x")
        with pytest.raises(NotFound):
            signed_world.access.delete_key("AKIAOTHER")
        for number in range(KEYS_PER_USER_MAX - 1):
            signed_world.access.add_key("ada", f"AKIA{number}", "x")
        with pytest.raises(TooMany):
            signed_world.access.add_key("ada", "AKIALAST", "x")


def test_wrong_keys_count_as_failed_logins_of_their_address_and_missing_signatures_do_not(signed_world: World) -> None:
    users, now_ms = signed_world.access.users, signed_world.clock.now_ms
    for _ in range(FREE_MAX):
        assert deliver(signed_world, sign(signed_world, late_s=3_600)).status == 403
        assert deliver(signed_world, sign(signed_world), without=[b"authorization"]).status == 403
    assert not users.failed_often("127.0.0.1", now_ms())
    for key, secret in [(KEY, "guess"), ("AKIAGUESS", SECRET), (KEY, "other")]:
        assert deliver(signed_world, sign(signed_world, key=key, secret=secret)).status == 403
    assert users.failed_often("127.0.0.1", now_ms())
    assert deliver(signed_world, sign(signed_world)).status == 200


def test_wrong_keys_beyond_a_number_are_told_to_come_again(
    signed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logins, "UNDECIDED_PER_ORIGIN_MAX", 0)
    answer = deliver(signed_world, sign(signed_world, secret="guess"))
    assert (answer.status, answer.json["__type"].partition("#")[2]) == (403, "RequestThrottled")
    assert deliver(signed_world, sign(signed_world)).status == 200
