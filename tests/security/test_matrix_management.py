"""The matrix of rights by the management API: tags for every endpoint, rights for those that change queues."""

import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from leveret.operations.registry import OPERATIONS
from leveret.protocols.management.routes import ROUTES
from tests.protocols.management.scene import Api
from tests.security.matrix import TAGS, Ask, Case, cases, tag_allows
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S

VHOST, PASSWORD = "matrix", "long enough"
NAMES = {"vhost": VHOST, "queue": "orders", "exchange": "events", "source": "events", "destination": "orders"}
NOWHERE = frozenset((("DELETE", "/vhosts/{vhost}"), ("PUT", "/vhosts/{vhost}")))
"""What would take the virtual host away is asked about one that is not there."""
ALIVE = ("GET", "/aliveness-test/{vhost}")
TAGGED = [(key, name) for key, (name, *_) in ROUTES.items() if OPERATIONS[name].rule.tag is not None and key != ALIVE]
BODIES: dict[tuple[str, str], Any] = {("POST", "/alerts/silences"): {"vhost": VHOST}}
"""Requests whose body names the virtual host."""
SENT = {"properties": {}, "routing_key": "a.b", "payload": "x", "payload_encoding": "string"}
TAKEN = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
KEY = {"routing_key": "a.b"}
QUEUE, EXCHANGE = f"/queues/{VHOST}/orders", f"/exchanges/{VHOST}/events"
BOUND = f"/bindings/{VHOST}/e/events"
ALTERNATE, DEAD = {"alternate-exchange": "alternate"}, {"x-dead-letter-exchange": "other"}
REQUESTS: dict[tuple[str, str, str], tuple[Any, list[Ask]]] = {
    ("PUT", EXCHANGE, ""): ({"type": "topic"}, [Ask("exchange.declare", exchange="events")]),
    ("PUT", f"/exchanges/{VHOST}/new", "alternate-exchange"): (
        {"type": "topic", "arguments": ALTERNATE},
        [Ask("exchange.declare", exchange="new", alternate_exchange="alternate")],
    ),
    ("DELETE", EXCHANGE, ""): (None, [Ask("exchange.delete", exchange="events")]),
    ("POST", f"{EXCHANGE}/publish", ""): (SENT, [Ask("basic.publish", True, exchange="events")]),
    ("POST", f"{EXCHANGE}/publish", "CC"): (
        {**SENT, "properties": {"headers": {"CC": ["a.c"]}}},
        [Ask("basic.publish", True, exchange="events")],
    ),
    ("PUT", QUEUE, ""): ({}, [Ask("queue.declare", queue="orders")]),
    ("PUT", f"/queues/{VHOST}/new", "x-dead-letter-exchange"): (
        {"arguments": DEAD},
        [Ask("queue.declare", queue="new", dead_letter_exchange="other")],
    ),
    ("DELETE", QUEUE, ""): (None, [Ask("queue.delete", queue="orders")]),
    ("GET", f"{QUEUE}/leases", ""): (None, [Ask("queue.browse", queue="orders")]),
    ("DELETE", f"{QUEUE}/contents", ""): (None, [Ask("queue.purge", queue="orders")]),
    ("POST", f"{QUEUE}/get", ""): (TAKEN, [Ask("queue.get", queue="orders")]),
    ("POST", f"{QUEUE}/move", ""): ({}, [Ask("queue.redrive", queue="orders")]),
    ("POST", f"{QUEUE}/move", "destination"): (
        {"destination": "dlq"},
        [Ask("queue.redrive", queue="orders", destination_queue="dlq")],
    ),
    ("POST", f"{BOUND}/q/orders", ""): (KEY, [Ask("queue.bind", True, queue="orders", exchange="events")]),
    ("POST", f"{BOUND}/e/other", ""): (KEY, [Ask("exchange.bind", True, source="events", destination="other")]),
    ("DELETE", f"{BOUND}/q/orders/a.b", ""): (None, [Ask("queue.unbind", True, queue="orders", exchange="events")]),
    ("DELETE", f"{BOUND}/e/other/a.b", ""): (
        None,
        [Ask("exchange.unbind", True, source="events", destination="other")],
    ),
    ("GET", f"/aliveness-test/{VHOST}", ""): (
        None,
        [
            Ask("health.aliveness"),
            Ask("queue.declare", queue="aliveness-test"),
            Ask("basic.publish", exchange="amq.default"),
            Ask("basic.get", queue="aliveness-test"),
        ],
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with a user for each tag, and one whose permissions a case says."""
    with ServerProcess(tmp_path_factory.mktemp("matrix")) as running:
        api = Api(running.ports["http"])
        api.put(f"/vhosts/{VHOST}")
        for tag in TAGS:
            for name in (f"in-{tag}", f"out-{tag}"):
                api.put(f"/users/{name}", {"password": PASSWORD, "tags": tag})
            api.put(f"/permissions/{VHOST}/in-{tag}", dict.fromkeys(("configure", "write", "read"), ""))
        api.put(f"/permissions/{VHOST}/guest", dict.fromkeys(("configure", "write", "read"), ".*"))
        api.put("/users/one", {"password": PASSWORD, "tags": "management"})
        yield running


def place(method: str, path: str) -> str:
    """A path with names; what is not of the scene is missing."""
    names = {**NAMES, **({"vhost": "missing"} if (method, path) in NOWHERE else {})}
    return "/".join(names.get(part[1:-1], "missing") if part.startswith("{") else part for part in path.split("/"))


@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("enters", [True, False], ids=["in the vhost", "elsewhere"])
def test_an_endpoint_needs_its_tag(server: ServerProcess, tag: str, enters: bool) -> None:
    api = Api(server.ports["http"], f"{'in' if enters else 'out'}-{tag}", PASSWORD)
    restore(Api(server.ports["http"]))
    wrong = []
    for (method, path), name in TAGGED:
        status = api.call(method, place(method, path), BODIES.get((method, path))).status
        inside = enters or ("{vhost}" not in path and (method, path) not in BODIES)
        if (status != 401) != tag_allows(name, tag, inside, "management") or status == 500:
            wrong.append((method, path, status))
    assert wrong == []


@pytest.mark.parametrize("tag", TAGS)
def test_operators_need_their_tag(server: ServerProcess, tag: str) -> None:
    user = Api(server.ports["http"], f"in-{tag}", PASSWORD)
    login = {"user": f"in-{tag}", "password": PASSWORD}
    for path, body, operation in (
        ("/operator/users.list", {}, "operator.run"),
        ("/console/session", login, "console.use"),
    ):
        status = posted(user, path, body)
        assert status in (200, 201, 403), path
        assert (status != 403) == tag_allows(operation, tag, enters=True), path


def posted(user: Api, path: str, body: Any) -> int:
    """The status of a request outside of the management API."""
    connection = HTTPConnection("127.0.0.1", user.port, timeout=PATIENCE_S)
    try:
        connection.request("POST", path, json.dumps(body), {"Authorization": user.authorization})
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.parametrize("key", REQUESTS, ids=" ".join)
def test_a_request_needs_its_rights_and_no_others(server: ServerProcess, key: tuple[str, str, str]) -> None:
    method, path, _ = key
    body, asks = REQUESTS[key]
    guest, one = Api(server.ports["http"]), Api(server.ports["http"], "one", PASSWORD)
    wrong = []
    for case in cases(asks):
        restore(guest)
        permit(guest, case)
        status = one.call(method, path, body).status
        if (status != 401) != case.allowed or (case.allowed and status >= 300):
            wrong.append((case.label, status))
    assert wrong == []


def test_the_tag_management_is_needed_beside(server: ServerProcess) -> None:
    guest, plain = Api(server.ports["http"]), Api(server.ports["http"], "in-", PASSWORD)
    restore(guest)
    guest.put(f"/permissions/{VHOST}/in-", dict.fromkeys(("configure", "write", "read"), ".*"))
    for (method, path, _), (body, _) in REQUESTS.items():
        assert plain.call(method, path, body).status == 401
    guest.put(f"/permissions/{VHOST}/in-", dict.fromkeys(("configure", "write", "read"), ""))


def restore(api: Api) -> None:
    """Make what earlier cases have deleted."""
    for path in (f"/queues/{VHOST}/new", f"/exchanges/{VHOST}/new"):
        api.call("DELETE", path)
    for name in ("events", "other"):
        api.put(f"/exchanges/{VHOST}/{name}", {"type": "topic"})
    for name in ("orders", "dlq"):
        api.put(f"/queues/{VHOST}/{name}")
    for end in ("q/orders", "e/other"):
        api.post(f"{BOUND}/{end}", KEY)


def permit(api: Api, case: Case) -> None:
    """Give the user the permissions of a case."""
    for kind in ("permissions", "topic-permissions"):
        api.call("DELETE", f"/{kind}/{VHOST}/one")
    if case.patterns is not None:
        api.put(f"/permissions/{VHOST}/one", dict(zip(("configure", "write", "read"), case.triple, strict=True)))
    if case.topic is not None:
        keys = {"exchange": "events", "write": case.topic, "read": case.topic}
        api.put(f"/topic-permissions/{VHOST}/one", keys)


def test_every_endpoint_is_asked_for() -> None:
    by_rights = {
        name for name, *_ in ROUTES.values() if OPERATIONS[name].rule.tag is None and OPERATIONS[name].rule.login
    }
    assert by_rights <= {ask.operation for _, asks in REQUESTS.values() for ask in asks}
