"""The OpenAPI document and the server agree: required fields, limits of names, statuses."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.protocols.http import problem
from leveret.protocols.rest.api import OPERATIONS
from leveret.protocols.rest.openapi import document
from leveret.protocols.rest.queues import SETTINGS
from tests.protocols.rest.world import RestWorld

HTTP = Path(leveret.__file__).parent / "protocols"
OTHER_INTERFACES = ("management", "console", "sqs", "metrics")
METHOD_NOT_ALLOWED = 405  # no operation answers it, only a path that lacks the method

DOCUMENT = document(OPERATIONS)


def described(line: str) -> dict[str, Any]:
    """What the document says about an operation."""
    method, path = line.split(" ")
    found: dict[str, Any] = DOCUMENT["paths"][path][method.lower()]
    return found


def body_of(line: str) -> dict[str, Any]:
    """The schema of the body of an operation."""
    content = described(line)["requestBody"]["content"]
    schema: dict[str, Any] = content["application/json"]["schema"]
    return schema


def refused_statuses() -> Iterator[int]:
    """The statuses that the sources of HTTP refuse requests with, as far as these are for REST."""
    for path in (*HTTP.rglob("*.py"), *HTTP.rglob("*.pyx")):
        if path.relative_to(HTTP).parts[0] in OTHER_INTERFACES:
            continue
        if path.suffix == ".pyx":
            yield from (int(part[:3]) for part in path.read_text().split("Refusal(")[1:] if part[:3].isdigit())
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Refusal":
                status = node.args[0]
                if isinstance(status, ast.Constant) and isinstance(status.value, int):
                    yield status.value


def test_a_body_without_which_a_request_is_refused_is_required(world: RestWorld) -> None:
    world.ok("PUT /queues/orders")
    world.ok("PUT /streams/clicks")
    world.ok("PUT /streams/clicks/groups/readers")
    world.ok("PUT /exchanges/events")
    values = {"queue": "orders", "stream": "clicks", "exchange": "events", "group": "readers", "batch": "1"}
    checked = 0
    for operation in OPERATIONS:
        if operation.body is None or operation.method == "DELETE":  # DELETE may have its fields in the query
            continue
        path = operation.path
        for name in ("queue", "stream", "exchange", "group", "batch", "message_id", "sink"):
            path = path.replace(f"{{{name}}}", values.get(name, "some"))
        answer = world.call(f"{operation.method} {path}")
        required = described(f"{operation.method} {operation.path}")["requestBody"]["required"]
        assert (answer.status == 400) == required, (operation.method, path, answer)
        checked += 1
    assert checked > 25


def test_required_fields_are_listed() -> None:
    assert body_of("POST /exchanges/{exchange}/bindings")["required"] == ["destination"]
    assert body_of("POST /streams/{stream}/groups/{group}/commit")["required"] == ["generation", "member", "offsets"]
    message = body_of("POST /queues/{queue}/messages")
    assert message["oneOf"] == [{"required": ["payload"]}, {"required": ["payload_base64"]}]
    batch = body_of("POST /queues/{queue}/messages/batch")
    assert batch["properties"]["messages"]["items"]["oneOf"] == message["oneOf"]


@pytest.mark.parametrize("body", [{}, {"payload": 1, "payload_base64": "AAEC"}])
def test_a_message_has_exactly_one_body(world: RestWorld, body: dict[str, Any]) -> None:
    world.ok("PUT /queues/orders")
    answer = world.call("POST /queues/orders/messages", body)
    assert (answer.status, answer.json["detail"]) == (
        400,
        "payload and payload_base64 exclude each other: give one of them",
    )


@pytest.mark.parametrize("text", ["AAEC=", "AAEC==", "AAE", "AA=C", "AAEC\n", "====", "AAEC====", "Ä===", "AA EC"])
def test_only_base64_is_base64(world: RestWorld, text: str) -> None:
    world.ok("PUT /queues/orders")
    assert world.call("POST /queues/orders/messages", {"payload_base64": text}).status == 400


def parameter(line: str, name: str) -> dict[str, Any]:
    """The schema of a parameter."""
    (schema,) = [each["schema"] for each in described(line)["parameters"] if each["name"] == name]
    found: dict[str, Any] = schema
    return found


def linked(world: RestWorld, line: str, request: dict[str, str], answer: Any, target: str, body: Any = None) -> Any:
    """Follow the link of an operation to a target; `body` has what both requests say."""
    operation = described(line)
    answers = [each for status, each in operation["responses"].items() if status.startswith("2")]
    names = [each["$ref"].rpartition("/")[2] for each in answers[0]["links"].values()]
    wanted = described(target)["operationId"]
    (link,) = [each for each in map(DOCUMENT["components"]["links"].get, names) if each["operationId"] == wanted]

    def value(expression: Any) -> Any:
        if isinstance(expression, list):
            return [value(each) for each in expression]
        if not isinstance(expression, str):
            return expression
        if expression.startswith("$request.body#/"):
            return body[expression.removeprefix("$request.body#/")]
        if expression.startswith("$request.path."):
            return request[expression.removeprefix("$request.path.")]
        found = answer
        for part in expression.removeprefix("$response.body#/").split("/"):
            found = found[int(part)] if isinstance(found, list) else found[part]
        return found

    passed = {name: value(each) for name, each in link["parameters"].items() if name != "query.vhost"}
    request |= {name.removeprefix("path."): each for name, each in passed.items() if name.startswith("path.")}
    query = "&".join(f"{name.removeprefix('query.')}={each}" for name, each in passed.items() if "query." in name)
    method, path = target.split(" ")
    path = path.format(**request) + ("?" + query if query else "")
    sent = {**(body or {}), **{name: value(each) for name, each in link.get("requestBody", {}).items()}}
    return world.ok(f"{method} {path}", sent or None)


def test_links_lead_from_a_queue_to_an_acknowledged_message(world: RestWorld) -> None:
    queue, send, take = "PUT /queues/{queue}", "POST /queues/{queue}/messages", "POST /queues/{queue}/dequeue"
    request = {"queue": "orders"}
    made = world.ok("PUT /queues/orders")
    sent = linked(world, queue, request, made, send, {"payload": "tea"})
    taken = linked(world, send, request, sent, take)
    assert [each["payload"] for each in taken["messages"]] == ["tea"]
    linked(world, take, request, taken, "DELETE /queues/{queue}/messages/{message_id}")
    figures = linked(world, queue, request, made, "GET /queues/{queue}/stats")
    assert (figures["ready"], figures["leased"], figures["acked"]) == (0, 0, 1)


def test_links_lead_from_a_reservation_to_its_messages(world: RestWorld) -> None:
    reserve = "POST /queues/{queue}/reservations/{group}"
    world.ok("PUT /queues/orders")
    world.ok("POST /queues/orders/messages", {"payload": "tea"})
    request = {"queue": "orders", "group": "readers"}
    reserved = world.ok("POST /queues/orders/reservations/readers", {})
    assert b"tea" in linked(world, reserve, request, reserved, f"GET {reserve.removeprefix('POST ')}/messages")
    assert linked(world, reserve, request, reserved, reserve)["start"] == reserved["end"]


def test_links_lead_from_a_member_of_a_group_to_its_records(world: RestWorld) -> None:
    path = "/streams/{stream}/groups/{group}"
    world.ok("PUT /streams/clicks")
    world.ok("POST /streams/clicks/records", {"payload": "tea"})
    request = {"stream": "clicks", "group": "readers"}
    joined = world.ok("POST /streams/clicks/groups/readers/join", {"member": "a"})
    polled = linked(world, f"POST {path}/join", request, joined, f"POST {path}/poll", {"member": "a"})
    assert [each["payload"] for each in polled["records"]] == ["tea"]


def test_every_link_passes_what_both_operations_have() -> None:
    operations = {each["operationId"]: each for methods in DOCUMENT["paths"].values() for each in methods.values()}
    used = set()
    for source in operations.values():
        for response in source["responses"].values():
            for link in response.get("links", {}).values():
                name = link["$ref"].removeprefix("#/components/links/")
                used.add(name)
                target = operations[DOCUMENT["components"]["links"][name]["operationId"]]
                for parameter, expression in DOCUMENT["components"]["links"][name]["parameters"].items():
                    place, _, key = parameter.partition(".")
                    assert any((each["in"], each["name"]) == (place, key) for each in target["parameters"]), name
                    if expression.startswith("$request."):
                        assert any(each["name"] == key for each in source["parameters"]), name
    assert used == DOCUMENT["components"]["links"].keys()
    assert len(used) > 60


def test_names_in_paths_have_the_limits_of_the_document(world: RestWorld) -> None:
    world.ok("PUT /queues/orders")
    world.ok("PUT /streams/clicks")
    for line, name, path in (
        ("DELETE /sinks/{sink}", "sink", "/sinks/{}"),
        ("GET /streams/{stream}/groups/{group}", "group", "/streams/clicks/groups/{}"),
        ("GET /queues/{queue}/reservations/{group}", "group", "/queues/orders/reservations/{}"),
        ("GET /queues/{queue}", "queue", "/queues/{}"),
        ("GET /exchanges/{exchange}", "exchange", "/exchanges/{}"),
        ("GET /streams/{stream}", "stream", "/streams/{}"),
    ):
        longest = parameter(line, name)["maxLength"]
        method = line.split(" ")[0]
        assert world.call(f"{method} {path.format('x' * longest)}").status != 400
        answer = world.call(f"{method} {path.format('x' * (longest + 1))}")
        assert (answer.status, answer.json["detail"]) == (
            400,
            f"the {name} in the path is a string of 1 to {longest} characters",
        )


def test_a_name_in_a_path_is_limited_in_bytes_too(world: RestWorld) -> None:
    answer = world.call(f"GET /queues/{'%C3%A4' * 128}")
    assert answer.status == 400
    assert "255 bytes of UTF-8" in answer.json["detail"]
    assert world.call(f"GET /queues/{'%C3%A4' * 127}").status == 404


def test_numbers_in_paths_have_the_range_of_the_document(world: RestWorld) -> None:
    batch = parameter("POST /sinks/{sink}/batches/{batch}", "batch")
    assert (batch["type"], batch["minimum"]) == ("integer", 0)
    for text in (str(batch["maximum"] + 1), "-1", "x"):
        assert world.call(f"POST /sinks/s/batches/{text}", {"parts": [], "rows": 0}).status == 400


def test_every_status_that_a_request_is_refused_with_is_documented() -> None:
    possible = {*problem.STATUSES.values(), *refused_statuses()} - {METHOD_NOT_ALLOWED}
    assert {401, 403, 404, 408, 409, 413, 421, 429, 503} <= possible  # the sources were read
    for methods in DOCUMENT["paths"].values():
        for operation in methods.values():
            lacking = possible - set(map(int, operation["responses"]))
            assert lacking <= {412}, operation["operationId"]  # only with If-Match
    patch = described("PATCH /queues/{queue}")["responses"]
    assert "application/problem+json" in patch["412"]["content"]


def test_refusals_are_problem_json_with_what_the_document_says() -> None:
    for response in DOCUMENT["components"]["responses"].values():
        assert list(response["content"]) == ["application/problem+json"]


def test_the_largest_count_of_the_document_is_accepted(world: RestWorld) -> None:
    """The document allowed 2**63 - 1, of which the queue refused all above 2**53 - 1."""
    most = body_of("PUT /queues/{queue}")["properties"]["max_length"]["maximum"]
    assert world.ok("PUT /queues/orders", {"max_length": most})["arguments"]["x-max-length"] == most
    assert world.call("PUT /queues/others", {"max_length": most + 1}).status == 400


NUMBERS = [
    name for name, field in SETTINGS.items() if field.schema.get("type") in (["number", "null"], ["integer", "null"])
]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_limits_of_a_setting_are_those_of_the_queue(world: RestWorld, name: str) -> None:
    """The document allowed 0 for retention, expires, ageing and dedup_window; the queue refused it."""
    schema = body_of("PUT /queues/{queue}")["properties"][name]
    for value in (schema["minimum"], schema["maximum"]):
        assert world.call("PUT /queues/orders", {name: value}).status == 201, value
        world.ok("DELETE /queues/orders")
    for value in (schema["minimum"] - 1, schema["minimum"] - 0.001, schema["maximum"] + 1):
        answer = world.call("PUT /queues/orders", {name: value})
        assert (answer.status, answer.json["detail"].split(" is ")[0]) == (400, name), value


@pytest.mark.parametrize("letter", ["x", "\u00e4"])
def test_a_header_name_has_the_limit_of_the_document(world: RestWorld, letter: str) -> None:
    world.ok("PUT /queues/orders")
    names = body_of("POST /queues/{queue}/messages")["properties"]["headers"]["propertyNames"]
    longest = names["maxLength"] // len(letter.encode())
    assert names == {"maxLength": 255}
    assert world.call("POST /queues/orders/messages", {"payload": 1, "headers": {letter * longest: 1}}).status == 201
    answer = world.call("POST /queues/orders/messages", {"payload": 1, "headers": {letter * (longest + 1): 1}})
    assert (answer.status, answer.json["detail"]) == (
        400,
        "a name in headers has over 255 bytes of UTF-8, which is the limit: shorten it",
    )
    assert world.call("PUT /queues/others", {"arguments": {letter * (longest + 1): 1}}).status == 400
