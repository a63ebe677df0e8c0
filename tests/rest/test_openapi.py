"""The document describes what is served: generated requests that fit it, and ones that do not, break nothing."""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from leveret.http.rest.api import OPERATIONS
from leveret.http.rest.openapi import document
from tests.rest.world import RestWorld
from tests.waiting import PATIENCE_S

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
EXAMPLES = 25
NAMES = {"queue": "0", "exchange": "0", "stream": "1", "group": "1"}

schema = schemathesis.openapi.from_dict(document(OPERATIONS))


@pytest.fixture
def served(world: RestWorld) -> RestWorld:
    """A broker with a queue, an exchange and a stream that generated names may meet."""
    world.ok("PUT /queues/0")
    world.ok("PUT /streams/1")
    world.ok("PUT /streams/1/groups/1")
    world.ok("PUT /exchanges/0", {"type": "fanout"})
    return world


@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_nothing_that_fits_or_does_not_fit_the_document_breaks_the_server(
    case: schemathesis.Case[Any], served: RestWorld
) -> None:
    if isinstance(case.body, dict) and "wait_seconds" in case.body:
        case.body["wait_seconds"] = 0  # nothing comes: nobody has to wait for that
    if isinstance(case.query, dict) and "wait_seconds" in case.query:
        case.query["wait_seconds"] = "0"
    for kind, name in NAMES.items():
        if len(str(case.path_parameters.get(kind, ""))) % 4:
            case.path_parameters[kind] = name  # most of them: a name that is not there is only refused
    case.call_and_validate(
        base_url=served.url, headers={"Authorization": f"Bearer {served.token}"}, checks=CHECKS, timeout=PATIENCE_S
    )


def test_every_route_is_described_once() -> None:
    described = {(method, path) for path, methods in document(OPERATIONS)["paths"].items() for method in methods}
    assert described == {(each.method.lower(), each.path) for each in OPERATIONS}
    names = [each["operationId"] for methods in document(OPERATIONS)["paths"].values() for each in methods.values()]
    assert len(set(names)) == len(names) == len(OPERATIONS)


def test_the_page_asks_no_other_server(world: RestWorld) -> None:
    page = world.call("GET /docs", token="")
    files = [world.call(f"GET {path}", token="") for path in ("/docs/docs.js", "/docs/docs.css")]
    assert b"/docs/docs.js" in page.json
    assert b"/docs/docs.css" in page.json
    for each in (page, *files):
        assert b"http://" not in each.json
        assert b"https://" not in each.json
