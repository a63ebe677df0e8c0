"""Refusals: the table is complete, and nothing that is sent makes the server fail inside."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leveret.core import errors
from leveret.core.properties import Properties
from leveret.protocols.http.request import Refusal
from leveret.protocols.management.refusals import WORDS, refused
from tests.protocols.management.requests import WRITE
from tests.protocols.management.scene import VHOST, Api

TEXT = st.text(st.characters(exclude_categories=()), max_size=5)  # halves of characters too
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXT, inside, max_size=3),
    max_leaves=6,
)
FIELDS = sorted({name for _, _, body in WRITE if isinstance(body, dict) for name in body} | {"durable", "arguments"})
# Everybody's connections must stay, and guest an administrator.
HARMLESS = [row for row in WRITE if row[0] != "DELETE" and "definitions" not in row[1]]


def test_every_error_of_the_core_has_its_word() -> None:
    known = {each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.LeveretError)}
    assert known == set(WORDS)


def test_what_http_refuses_has_the_same_shape() -> None:
    answer = refused(Refusal(413, "too large: send less", (("X-A", "b"),)))
    assert answer.status == 413
    assert json.loads(answer.body)["reason"] == "too large: send less"
    assert ("X-A", "b") in tuple(answer.headers)


def test_a_page_of_somebody_else_changes_nothing(api: Api) -> None:
    path, body = "/global-parameters/mark", {"value": "stolen"}
    assert api.call("PUT", path, body, {"Origin": "http://evil.example"}).status == 403
    assert api.get(path)["value"] != "stolen"
    own = {"Origin": f"http://127.0.0.1:{api.port}"}
    assert api.call("PUT", path, {"value": {"colour": "red"}}, own).status == 204


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row=st.sampled_from(HARMLESS),
    changes=st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=3),
)
def test_no_body_makes_the_server_fail(api: Api, row: tuple[str, str, Any], changes: dict[str, Any]) -> None:
    method, path, body = row
    sent = {**(body or {}), **changes}
    if sent.get("action") == "pause":
        return
    status = api.call(method, path, sent).status
    assert status < 500, f"{method} {path} {sent!r}"


PROPERTIES = st.dictionaries(st.sampled_from([*Properties.__dataclass_fields__, "other"]), VALUES, max_size=4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(properties=PROPERTIES | VALUES, headers=st.none() | st.dictionaries(TEXT, VALUES, max_size=3), payload=TEXT)
def test_no_message_makes_the_server_fail(api: Api, properties: Any, headers: Any, payload: str) -> None:
    if isinstance(properties, dict) and headers is not None:
        properties = {**properties, "headers": headers}
    sent = {"properties": properties, "routing_key": "brief", "payload": payload, "payload_encoding": "string"}
    assert api.call("POST", f"/exchanges/{VHOST}/amq.default/publish", sent).status < 500
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert api.call("POST", f"/queues/{VHOST}/brief/get", taken).status == 200
