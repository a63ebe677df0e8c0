"""API keys instead of passwords: the scope `manage` opens the API, the other scopes bound what is changed by it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import leveret
from leveret.security.access import Access
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess

SCOPES = {"plain": ["write:*"], "manager": ["manage"], "writer": ["manage", "write:*", "configure:orders.*"]}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Api]]:
    """A client for each key of an administrator."""
    folder: Path = tmp_path_factory.mktemp("tokens")
    server = ServerProcess(folder)
    with leveret.open(server.data) as broker:
        with broker.runtime as core:
            access = Access(core)
            tokens = {name: access.api_keys.add("guest", each, core.now_ms)[1] for name, each in SCOPES.items()}
        broker.flush()
    with server:
        yield {name: Api(server.ports["http"], token=token) for name, token in tokens.items()}


def test_without_the_scope_there_is_no_tag(keys: dict[str, Api]) -> None:
    answer = keys["plain"].call("GET", "/overview")
    assert (answer.status, answer.body["reason"]) == (401, "Not management user")


def test_with_it_everything_can_be_looked_at(keys: dict[str, Api]) -> None:
    assert keys["manager"].get("/whoami") == {"name": "guest", "tags": ["administrator"]}
    assert keys["manager"].get("/queues") == []


def test_what_is_changed_needs_a_scope_of_its_own(keys: dict[str, Api]) -> None:
    path, body = "/queues/%2F/orders.new", {"durable": True}
    status, told, _ = keys["manager"].call("PUT", path, body)
    assert (status, told["error"]) == (401, "not_authorised")
    assert keys["writer"].call("PUT", path, body).status == 201
    assert keys["writer"].call("PUT", "/queues/%2F/letters", body).status == 401
    message = {"properties": {}, "routing_key": "orders.new", "payload": "x", "payload_encoding": "string"}
    assert keys["writer"].post("/exchanges/%2F/amq.default/publish", message) == {"routed": True}
    taken = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert keys["writer"].call("POST", f"{path}/get", taken).status == 401


def test_a_wrong_key_is_no_login(keys: dict[str, Api]) -> None:
    assert Api(keys["plain"].port, token="lvr_nonsense").call("GET", "/overview").status == 401
