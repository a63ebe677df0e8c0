"""The document describes what is served: generated requests that fit it, and ones that do not, break nothing."""

import os
import re
from collections import Counter
from contextlib import suppress
from typing import Any
from urllib.parse import quote, unquote

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.errors import Flaky
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from leveret.core.names import NAME_BYTES_MAX
from leveret.protocols.rest.api import OPERATIONS
from leveret.protocols.rest.leases import WAIT_S_MAX
from leveret.protocols.rest.openapi import document
from tests.protocols.rest.world import RestWorld
from tests.waiting import PATIENCE_S

EXAMPLES = int(os.environ.get("LEVERET_OPENAPI_EXAMPLES", "6"))
"""How many requests of each operation are tried; some hundreds take minutes and find more."""
SCENARIOS = 3 * EXAMPLES
STEPS = 10  # requests of a scenario, each of which may use the answers before it
RUNS_MAX = 10
SCENARIO = "scenario"
SETTINGS = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
NAMES = {"queue": "0", "exchange": "0", "stream": "1", "group": "1"}
STATES = ("412", "413", "414", "422", "507")
"""What depends on the state of the server or on the size of all fields, and on no single field."""
BETWEEN_FIELDS = re.compile(
    "receipt_handle is missing: give it in the body or in the query"
    "|share [0-9]+ of [0-9]+: shares are counted from 0"
    "|offset and timestamp both say where to begin"
    "|stream '(?s:.*)' has partitions 0 to [0-9]+, not [0-9]+"
    "|the limit takes over 300 seconds at this rate_per_second"
    "|a part is named twice"
    "|an integer header has at most 64 bits|has [0-9]+ bytes, the limit is 255|over 255 bytes of UTF-8"
    "|invalid (headers|arguments): "
)
"""Rules between fields, for what exists and for values deep in tables, which the document has only in words."""

load_all_checks()
schema = schemathesis.openapi.from_dict(document(OPERATIONS))
schema.config.generation.with_security_parameters = False  # the test sends credentials of its own
for expected in (schema.config.checks.positive_data_acceptance, schema.config.checks.negative_data_rejection):
    expected.expected_statuses = [*expected.expected_statuses, *STATES]


@pytest.fixture
def served(world: RestWorld) -> RestWorld:
    """A broker with the queue, the exchange, the stream and the group that generated requests name."""
    make_what_is_named(world, "%2F")
    return world


def make_what_is_named(world: RestWorld, vhost: str) -> None:
    """Make the queue, the exchange, the stream and the group in a virtual host."""
    world.ok(f"PUT /queues/0?vhost={vhost}")
    world.ok(f"PUT /streams/1?vhost={vhost}")
    world.ok(f"PUT /streams/1/groups/1?vhost={vhost}")
    world.ok(f"PUT /exchanges/0?vhost={vhost}", {"type": "fanout"})


def name_what_exists(case: schemathesis.Case[Any]) -> None:
    """Let most requests name what exists, in the only virtual host: others are only refused."""
    for kind, name in NAMES.items():
        given = case.path_parameters.get(kind, "")
        if isinstance(given, str) and 0 < len(unquote(given)) <= NAME_BYTES_MAX and len(given) % 4:
            case.path_parameters[kind] = name  # not in place of one that is meant to be refused
    vhost = case.query.get("vhost") if isinstance(case.query, dict) else None
    if isinstance(vhost, str) and len(vhost) <= NAME_BYTES_MAX and len(vhost) % 4:
        del case.query["vhost"]


def wait_for_nothing(case: schemathesis.Case[Any]) -> None:
    """Let no request wait for messages that no client sends; a value that is refused stays."""
    for fields, nothing in ((case.body, 0), (case.query, "0")):
        if isinstance(fields, dict) and is_valid_wait(fields.get("wait_seconds")):
            fields["wait_seconds"] = nothing


def is_valid_wait(value: Any) -> bool:
    """Whether a request may wait for so many seconds."""
    try:
        return type(value) is not bool and 0 <= float(value) <= WAIT_S_MAX
    except (TypeError, ValueError):
        return False


def excluded_checks(answer: Any) -> list[Any]:
    """The checks that do not apply to an answer."""
    excluded: list[Any] = [ignored_auth]  # see the test below: a refused login takes a while
    if BETWEEN_FIELDS.search(answer.content.decode(errors="replace")):
        excluded.append(positive_data_acceptance)
    return excluded


@schema.parametrize()
@SETTINGS
def test_nothing_that_fits_or_does_not_fit_the_document_breaks_the_server(
    case: schemathesis.Case[Any], served: RestWorld
) -> None:
    name_what_exists(case)
    wait_for_nothing(case)
    headers = {"Authorization": f"Bearer {served.token}"}
    answer = case.call(base_url=served.url, headers=headers, timeout=PATIENCE_S)
    case.validate_response(answer, excluded_checks=excluded_checks(answer), headers=headers)


def scenario_of(served: RestWorld, seen: Counter[str], findings: list[FailureGroup]) -> Any:
    """Scenarios that go from an answer to the operations that its links name.

    `seen` counts scenarios and successes; `findings` keeps each refused answer, also one that does not come again.
    """

    class Scenario(schema.as_state_machine()):  # type: ignore[misc]
        def setup(self) -> None:
            seen[SCENARIO] += 1
            self.vhost = f"scenario {seen[SCENARIO]}"
            with served.broker.runtime as core:  # of its own, so that no scenario depends on those before
                core.declare_vhost(self.vhost)
                served.access.set_permission("guest", self.vhost, ".*", ".*", ".*")
            make_what_is_named(served, quote(self.vhost))

        def step(self, input: Any) -> Any:
            case = input.case
            if input.transition is None:
                name_what_exists(case)
            vhost = case.query.get("vhost", "/") if isinstance(case.query, dict) else None
            if isinstance(vhost, str) and 0 < len(vhost) <= NAME_BYTES_MAX:
                case.query["vhost"] = self.vhost
            wait_for_nothing(case)
            return super().step(input)

        def get_call_kwargs(self, case: schemathesis.Case[Any]) -> dict[str, Any]:
            headers = {"Authorization": f"Bearer {served.token}"}
            return {"base_url": served.url, "headers": headers, "timeout": PATIENCE_S}

        def after_call(self, response: Any, case: schemathesis.Case[Any]) -> None:
            seen[case.operation.label] += response.status_code < 300

        def validate_response(self, response: Any, case: schemathesis.Case[Any], **options: Any) -> None:
            try:
                case.validate_response(response, excluded_checks=excluded_checks(response), headers=options["headers"])
            except FailureGroup as finding:
                findings.append(finding)
                raise

    return Scenario


@pytest.mark.timeout(240 + 30 * EXAMPLES)
def test_requests_that_follow_the_links_of_the_document_break_nothing(served: RestWorld) -> None:
    seen: Counter[str] = Counter()
    findings: list[FailureGroup] = []
    scenario = scenario_of(served, seen, findings)
    for _ in range(RUNS_MAX):
        with suppress(Flaky):  # Hypothesis repeats beginnings of scenarios, and answers depend on the time, too
            scenario.run(settings=settings(SETTINGS, max_examples=SCENARIOS, stateful_step_count=STEPS))
        if seen[SCENARIO] >= SCENARIOS:
            break
    assert not findings
    assert seen[SCENARIO] >= SCENARIOS
    succeeded = {label for label, count in seen.items() if count}
    assert len(succeeded) > 10, seen  # the links lead to something


def test_no_operation_is_done_without_credentials(world: RestWorld) -> None:
    for operation in OPERATIONS:
        answer = world.call(f"{operation.method} {re.sub('{[a-z_]+}', '1', operation.path)}", token="")
        assert (answer.status, answer.headers["content-type"]) == (401, "application/problem+json"), operation.path


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
