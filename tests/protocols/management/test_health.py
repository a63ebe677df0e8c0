"""Health checks, alarms and what the process tells of itself."""

from pathlib import Path

import pika
import pytest
from cryptography import x509

from leveret.security.tls import Certificates
from tests.protocols.management.record import told_health
from tests.protocols.management.recorded import RECORDED
from tests.protocols.management.requests import HEALTH
from tests.protocols.management.scene import Api
from tests.server.certificates import Authority
from tests.server_process import ServerProcess

CHECKS = "/health/checks"


def test_listeners_are_found_by_port_and_protocol(api: Api, server: ServerProcess) -> None:
    assert api.get(f"{CHECKS}/port-listener/{server.port}") == {"status": "ok", "port": server.port}
    status, told, _ = api.call("GET", f"{CHECKS}/port-listener/1")
    assert (status, told["reason"], told["missing"]) == (503, "No active listener", 1)
    assert api.get(f"{CHECKS}/protocol-listener/http")["status"] == "ok"
    status, told, _ = api.call("GET", f"{CHECKS}/protocol-listener/mqtt")
    assert (status, told["missing"]) == (503, "mqtt")
    assert "amqp" in told["protocols"]


@pytest.mark.parametrize(
    "path",
    [
        "port-listener/x",
        "port-listener/" + "9" * 19,
        "certificate-expiration/1/eons",
        "certificate-expiration/x/days",
        "certificate-expiration/10000/days",
        "quorum-queues-without-elected-leaders/all-vhosts/pattern/(",
        f"quorum-queues-without-elected-leaders/all-vhosts/pattern/{'x' * 201}",
    ],
)
def test_a_check_is_refused(api: Api, path: str) -> None:
    assert api.call("GET", f"{CHECKS}/{path}").status == 400


def test_an_alarm_is_told(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--disk-alarm-bytes", str(1 << 60)) as server:
        server.wait_for("alarm")
        api = Api(server.ports["http"])
        node = api.get("/nodes")[0]["name"]
        for check in (f"{CHECKS}/alarms", f"{CHECKS}/local-alarms"):
            status, told, _ = api.call("GET", check)
            assert status == 503
            assert [each["resource"] for each in told["alarms"]] == ["disk"]
        old = {"status": "failed", "reason": f"resource alarm(s) in effect:[{{resource_limit,disk,{node}}}]"}
        assert api.call("GET", "/healthchecks/node")[:2] == (503, old)
        assert api.get("/nodes")[0]["disk_free_alarm"]


@pytest.mark.parametrize("path", HEALTH)
def test_a_check_answers_as_rabbitmq_does(api: Api, path: str) -> None:
    assert told_health(api, path) == RECORDED["health"][f"well {path}"]


def test_a_check_answers_as_rabbitmq_does_that_is_short_of_memory(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory-limit", "0.0001") as server:
        server.wait_for("alarm")
        api = Api(server.ports["http"])
        for path in HEALTH:
            assert told_health(api, path) == RECORDED["health"][f"alarm {path}"], path


def test_checks_of_rabbitmq_4_are_answered(api: Api) -> None:
    leaders = f"{CHECKS}/quorum-queues-without-elected-leaders"
    for path in (
        f"{CHECKS}/is-in-service",
        f"{CHECKS}/ready-to-serve-clients",
        f"{CHECKS}/metadata-store/initialized",
        f"{CHECKS}/metadata-store/initialized/with-data",
        f"{leaders}/all-vhosts",
        f"{leaders}/all-vhosts/pattern/%5Eorders",
        f"{leaders}/vhost/%2F",
        f"{leaders}/vhost/%2F/pattern/.%2A",
    ):
        assert api.get(path) == {"status": "ok"}, path
    assert api.call("GET", f"{leaders}/vhost/nowhere").status == 404


def test_a_load_balancer_asks_without_a_login_whether_there_is_room(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--connections-max", "1") as server:
        api = Api(server.ports["http"], "nobody", "wrong")
        limit, ready = f"{CHECKS}/below-node-connection-limit", f"{CHECKS}/ready-to-serve-clients"
        assert api.get(limit) == {"status": "ok", "limit": 1, "connections": 0}
        assert api.get(ready) == api.get(f"{CHECKS}/is-in-service") == {"status": "ok"}
        assert api.call("GET", f"{CHECKS}/virtual-hosts").status == 401
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", server.port)):
            reason = {"status": "failed", "reason": "node connection limit is reached", "connections": 1}
            assert api.call("GET", limit)[:2] == (503, {**reason, "limit": 1})
            assert api.call("GET", ready)[:2] == (503, reason)


def test_the_old_check_of_a_node_names_the_node(api: Api) -> None:
    node = api.get("/nodes")[0]["name"]
    assert api.get("/healthchecks/node") == {"status": "ok"}
    assert api.get(f"/healthchecks/node/{node}") == {"status": "ok"}
    assert api.call("GET", "/healthchecks/node/rabbit@nowhere").status == 404


def test_the_end_of_a_certificate_is_read(tmp_path: Path, api: Api) -> None:
    issued = Authority(tmp_path).issue("localhost")
    ends = x509.load_pem_x509_certificate(issued.cert.read_bytes()).not_valid_after_utc
    assert Certificates(str(issued.cert)).ends_ms() == int(ends.timestamp() * 1_000)
    assert api.get(f"{CHECKS}/certificate-expiration/1/weeks") == {"status": "ok"}


def test_features_are_on_and_nothing_is_deprecated(api: Api) -> None:
    names = {row["name"] for row in api.get("/feature-flags") if row["state"] == "enabled"}
    assert "quorum_queue" in names
    api.put("/feature-flags/quorum_queue/enable")
    assert api.call("PUT", "/feature-flags/nope/enable").status == 400
    assert api.get("/deprecated-features/used") == []
    assert {row["deprecation_phase"] for row in api.get("/deprecated-features")} == {"removed"}


def test_the_overview_tells_who_this_is(api: Api) -> None:
    told = api.get("/overview")
    assert (told["product_name"], told["node"]) == ("Leveret", api.get("/nodes")[0]["name"])
    assert {each["protocol"] for each in told["listeners"]} >= {"amqp", "http"}
