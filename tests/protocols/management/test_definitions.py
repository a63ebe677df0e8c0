"""Files of definitions: a real export is taken in, ours come back unchanged."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from leveret.protocols.management.definitions import PASSWORDS_MAX
from tests.protocols.management.recorded import DEFINITIONS
from tests.protocols.management.scene import VHOST, Api, define
from tests.server_process import ServerProcess

SECTIONS = ("vhosts", "users", "permissions", "topic_permissions", "policies", "exchanges", "queues", "bindings")


@pytest.fixture
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with nothing on it."""
    with ServerProcess(tmp_path_factory.mktemp("empty")) as running:
        yield running


def key(row: Any) -> str:
    return json.dumps(row, sort_keys=True)


def test_an_export_of_rabbitmq_is_taken_in_and_survives(empty: ServerProcess) -> None:
    api = Api(empty.ports["http"])
    status, body, _ = api.call("POST", "/definitions", DEFINITIONS)
    assert (status, body) == (204, b"")
    empty.kill()
    empty.start()
    api = Api(empty.ports["http"])
    given = api.get("/definitions")
    for section in ("permissions", "topic_permissions", "policies", "exchanges", "queues", "bindings", "parameters"):
        lasting = [row for row in DEFINITIONS[section] if row.get("durable", True)]
        assert sorted(map(key, given[section])) == sorted(map(key, lasting)), section
    names = {row["name"] for row in DEFINITIONS["global_parameters"]}
    assert {row["name"] for row in given["global_parameters"]} == names
    assert Api(api.port, "alice", "wonderland").get("/whoami") == {
        "name": "alice",
        "tags": ["management", "policymaker"],
    }


def test_users_may_have_passwords(empty: ServerProcess) -> None:
    api = Api(empty.ports["http"])
    grace, both = ({"name": name, "password": "grace hopper", "tags": "management"} for name in ("grace", "both"))
    told = api.call("POST", "/definitions", {"users": [grace, {**both, "password_hash": ""}]}).body
    assert [("'both'" in reason, "not both" in reason) for reason in told["skipped"]] == [(True, True)]
    assert Api(api.port, "grace", "grace hopper").get("/whoami")["name"] == "grace"
    assert api.call("GET", "/users/both").status == 404
    assert "hopper" not in empty.text
    many = [{"name": f"user {number}", "password": "long enough", "tags": ""} for number in range(PASSWORDS_MAX + 1)]
    assert "split it" in api.call("POST", "/definitions", {"users": many}).body["reason"]


def test_what_one_server_gives_another_takes(empty: ServerProcess, api: Api) -> None:
    given = api.get("/definitions")
    other = Api(empty.ports["http"])
    assert other.call("POST", "/definitions", given).status == 204
    again = other.get("/definitions")
    assert {section: sorted(map(key, again[section])) for section in SECTIONS} == {
        section: sorted(map(key, given[section])) for section in SECTIONS
    }


def test_a_virtual_host_goes_into_another(api: Api) -> None:
    given = api.get(f"/definitions/{VHOST}")
    assert all("vhost" not in row for row in given["queues"] + given["exchanges"] + given["bindings"])
    api.put("/vhosts/copy", {})
    assert api.call("POST", "/definitions/copy", given).status == 204
    names = {row["name"] for row in api.get("/queues/copy")}
    assert names == {row["name"] for row in given["queues"]}
    assert api.get("/policies/copy/long")["vhost"] == "copy"
    api.delete("/vhosts/copy")


def test_a_form_of_a_browser_is_taken(api: Api) -> None:
    file = json.dumps({"queues": [{"name": "from-a-form", "vhost": VHOST, "durable": True}]}).encode()
    head = b'--sep\r\nContent-Disposition: form-data; name="file"; filename="a.json"\r\n\r\n'
    body = head + file + b"\r\n--sep--\r\n"
    headers = {"Content-Type": "multipart/form-data; boundary=sep"}
    assert api.call("POST", "/definitions", body, headers).status == 204
    assert api.get(f"/queues/{VHOST}/from-a-form")["durable"]


def test_a_download_has_a_file_name_and_nothing_else_in_its_header(api: Api) -> None:
    headers = api.call("GET", "/definitions?download=my%20file%0D%0Ax.json").headers
    assert headers["content-disposition"] == "attachment; filename=my_file__x.json"


def test_what_contradicts_is_left_out_and_told(api: Api) -> None:
    rows = [{"name": "orders", "vhost": VHOST, "durable": False}, {"name": "fresh", "vhost": VHOST, "durable": True}]
    status, told, _ = api.call("POST", "/definitions", {"queues": rows})
    assert status == 200
    assert len(told["skipped"]) == 1
    assert "inequivalent arg 'durable'" in told["skipped"][0]
    assert api.get(f"/queues/{VHOST}/fresh")["name"] == "fresh"


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (b"nope", {}),
        (b"[]", {}),
        (b'{"queues": {}}', {}),
        (b'{"queues": NaN}', {}),
        (b"[" * 100_000, {}),
        (b"x", {"Content-Type": "multipart/form-data"}),
        (b"x", {"Content-Type": "multipart/form-data; boundary=b"}),
        (b"--b\r\n\r\n{}", {"Content-Type": "multipart/form-data; boundary=b"}),
        (b"--b\r\n\r\n\r\n" * 20 + b"--b--", {"Content-Type": "multipart/form-data; boundary=b"}),
        (b"x", {"Content-Type": f"multipart/form-data; boundary={'b' * 100}"}),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(api: Api, body: bytes, headers: dict[str, str]) -> None:
    status, told, _ = api.call("POST", "/definitions", body, headers)
    assert (status, told["error"]) == (400, "bad_request")


def test_definitions_can_be_defined_again(api: Api) -> None:
    define(api)
