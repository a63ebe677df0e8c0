"""Every endpoint asked by everybody: the status is the one that a real RabbitMQ gave."""

from collections.abc import Iterator

import pytest

from leveret.protocols.management.routes import ALERTS, ROUTES
from tests.protocols.management.record import ask_as, places, users
from tests.protocols.management.recorded import RECORDED
from tests.protocols.management.requests import READ, WRITE
from tests.protocols.management.scene import VHOST, Api, traffic
from tests.server_process import ServerProcess

# There RabbitMQ fails inside: it looks for the owner of a connection that is not there.
OTHERWISE = {("DELETE /connections/missing", 500): 404}


@pytest.fixture(scope="module")
def named(server: ServerProcess) -> Iterator[dict[str, str]]:
    with traffic(server.port):
        yield places(Api(server.ports["http"]))


@pytest.mark.parametrize(("name", "tag", "inside"), users())
def test_everybody_gets_what_rabbitmq_gives_him(
    api: Api, named: dict[str, str], name: str, tag: str, inside: bool
) -> None:
    told = ask_as(api, name, tag, inside, named)
    wanted = {request: statuses[name] for request, statuses in RECORDED["statuses"].items()}
    wanted = {request: OTHERWISE.get((request, status), status) for request, status in wanted.items()}
    assert same(told) == same(wanted)


def same(statuses: dict[str, int]) -> dict[str, int]:
    """Without the difference between made (201) and changed (204), which depends on who came first."""
    return {request: 204 if status == 201 else status for request, status in statuses.items()}


def test_without_a_login_nothing_is_told(server: ServerProcess) -> None:
    answer = Api(server.ports["http"], "guest", "wrong").call("GET", "/overview")
    assert answer.status == 401
    assert answer.body == {"error": "not_authorized", "reason": "Login failed"}
    assert answer.headers["www-authenticate"].startswith("Basic realm=")


def test_every_endpoint_of_the_table_is_asked_or_is_not_rabbitmqs() -> None:
    asked = {("GET", path.partition("?")[0]) for path in READ} | {(method, path) for method, path, _ in WRITE}
    shapes = {(method, shape(path)) for method, path in asked}
    newer = {path for path in ROUTES if (path[0], shape(path[1])) not in shapes and path not in ALERTS}
    assert newer == {
        ("GET", "/auth/hash_password/{password}"),
        ("POST", "/auth/hash_password"),
        ("GET", "/connections/username/{user}"),
        ("DELETE", "/connections/username/{user}"),
        ("DELETE", "/vhost-limits/{vhost}/{limit}"),
        ("DELETE", "/topic-permissions/{vhost}/{user}/{exchange}"),
        ("GET", "/deprecated-features"),
        ("GET", "/deprecated-features/used"),
        ("PUT", "/feature-flags/{name}/enable"),
        ("GET", "/queues/detailed"),
        ("POST", "/queues/{vhost}/{queue}/move"),
        ("GET", "/queues/{vhost}/{queue}/leases"),
        ("GET", "/exchanges/{vhost}/{exchange}/probe"),
        ("GET", "/dead-letters/{vhost}"),
        ("GET", "/scheduled/{vhost}"),
        ("GET", "/routing/{vhost}"),
        ("GET", "/nodes/{node}/storage"),
        ("GET", "/reports"),
        ("GET", "/reports/{report}"),
        ("GET", "/reports/{report}/page"),
        ("GET", "/health/checks/is-in-service"),
        ("GET", "/health/checks/ready-to-serve-clients"),
        ("GET", "/health/checks/below-node-connection-limit"),
        ("GET", "/health/checks/metadata-store/initialized"),
        ("GET", "/health/checks/metadata-store/initialized/with-data"),
        ("GET", "/health/checks/quorum-queues-without-elected-leaders/all-vhosts"),
        ("GET", "/health/checks/quorum-queues-without-elected-leaders/all-vhosts/pattern/{pattern}"),
        ("GET", "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}"),
        ("GET", "/health/checks/quorum-queues-without-elected-leaders/vhost/{vhost}/pattern/{pattern}"),
        ("GET", "/healthchecks/node"),
        ("GET", "/healthchecks/node/{node}"),
        ("GET", "/cluster"),
        ("POST", "/nodes/{node}/drain"),
    }


def shape(path: str) -> str:
    """A path whose names are replaced by how the table would write them, as far as their number goes."""
    known = {template for _, template in ROUTES}
    parts = path.replace(VHOST, "{vhost}").split("/")
    for template in sorted(known, key=lambda each: each.count("{")):
        wanted = template.split("/")
        if len(wanted) == len(parts) and all(b.startswith("{") or a == b for a, b in zip(parts, wanted, strict=True)):
            return template
    return path
