"""Alerts of a real server: told to a real webhook, silenced, remembered, and only shown to those who may see them."""

import json
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leveret.server.control import connect
from tests.observability.alerting.sinks import WebSink
from tests.protocols.management.scene import Api
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S, wait_until

EVERYTHING = {"configure": ".*", "write": ".*", "read": ".*"}
SECRETS = ("s3cret", "sesame")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that looks at its queues all the time."""
    with ServerProcess(tmp_path_factory.mktemp("alerts"), "--alerts-every-s", "0.1") as running:
        api = Api(running.ports["http"])
        for vhost in ("shop", "lab"):
            api.put(f"/vhosts/{vhost}")
            api.put(f"/permissions/{vhost}/guest", EVERYTHING)
            api.put(f"/queues/{vhost}/orders", {"durable": True})
        for user, tag in (("clerk", "management"), ("watcher", "monitoring"), ("maker", "policymaker")):
            api.put(f"/users/{user}", {"password": "wonderland", "tags": tag})
            api.put(f"/permissions/shop/{user}", EVERYTHING)
        yield running
        assert not any(secret in running.text for secret in SECRETS)


@pytest.fixture
def sink() -> Iterator[WebSink]:
    with WebSink() as running:
        yield running


def fill(api: Api, vhost: str, count: int = 3, queue: str = "orders") -> None:
    body = {"properties": {"delivery_mode": 2}, "routing_key": queue, "payload": "x", "payload_encoding": "string"}
    for _ in range(count):
        api.post(f"/exchanges/{vhost}/amq.default/publish", body)


def hook(sink: WebSink, **fields: Any) -> dict[str, Any]:
    return {"kind": "webhook", "url": sink.url, "authorization": "Bearer sesame", "group_s": 0, **fields}


def few(**fields: Any) -> dict[str, Any]:
    return {"figure": "waiting_max", "limit": 2, "vhost": "shop", "severity": "critical", **fields}


def as_user(server: ServerProcess, name: str) -> Api:
    return Api(server.ports["http"], name, "wonderland")


def firing(api: Api, rule: str) -> list[dict[str, Any]]:
    return [row for row in api.get("/alerts") if row["rule"] == rule and row["state"] == "firing"]


def scraped(port: int) -> str:
    """What Prometheus is told."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def test_an_alert_is_told_silenced_and_ends(api: Api, sink: WebSink) -> None:
    api.put("/alerts/receivers/ops", hook(sink, rules=["few"]))
    api.put("/alerts/rules/few", few())
    fill(api, "shop")
    told = sink.next().body
    assert (told["status"], told["rule"]["name"]) == ("firing", "few")
    assert [(row["vhost"], row["queue"], row["value"]) for row in told["alerts"]] == [("shop", "orders", 3)]
    (alert,) = firing(api, "few")
    assert (alert["silence"], alert["worst"]) == (None, 3)
    assert 'leveret_alerts_firing{rule="few"} 1\n' in scraped(api.port)
    until_ms = alert["since_ms"] + 3_600_000
    silence = api.post("/alerts/silences", {"rule": "few", "queue": "ord*", "until_ms": until_ms, "why": "we know"})
    assert firing(api, "few")[0]["silence"] == silence["name"]
    assert (silence["by"], silence["until_ms"]) == ("guest", until_ms)
    api.delete(f"/alerts/silences/{silence['name']}")
    # The end of what is silenced is not told: this one has to be seen once more after its silence.
    fill(api, "shop", 1)
    wait_until(lambda: firing(api, "few")[0]["value"] == 4)
    api.delete("/queues/shop/orders/contents")
    told = next(post.body for post in iter(sink.next, None) if post.body["status"] == "resolved")
    assert told["alerts"][0]["queue"] == "orders"
    assert firing(api, "few") == []
    events = [row["event"] for row in api.get("/alerts/history") if row["rule"] == "few"]
    assert {"firing", "resolved", "sent", "silenced", "unsilenced"} <= set(events)
    api.delete("/alerts/rules/few")
    api.delete("/alerts/receivers/ops")


def test_a_receiver_is_tried_out(api: Api, server: ServerProcess, sink: WebSink) -> None:
    api.put("/alerts/receivers/ops", hook(sink, rules=["nothing"]))
    assert api.post("/alerts/receivers/ops/test") == {"name": "ops", "status": "sent"}
    assert sink.next().body["status"] == "test"
    api.put("/alerts/receivers/ops", {"kind": "webhook", "url": "http://127.0.0.1:9/s3cret", "rules": ["nothing"]})
    status, body, _ = api.call("POST", "/alerts/receivers/ops/test")
    assert (status, body["error"]) == (503, "service_unavailable")
    assert "cannot be reached" in body["reason"]
    assert "cannot be reached" in api.get("/alerts/receivers")[0]["problem"]
    assert api.call("POST", "/alerts/receivers/nobody/test").status == 404
    with connect(str(server.data)) as operator:
        operator.call("alerts.receiver", name="ops", definition=hook(sink, rules=["nothing"]))
        assert operator.call("alerts.test", name="ops") == {"name": "ops", "status": "sent"}
    assert any(row["act"].endswith("/receivers/ops/test") for row in _audit(server))
    api.delete("/alerts/receivers/ops")


def _audit(server: ServerProcess) -> list[dict[str, Any]]:
    with connect(str(server.data)) as operator:
        assert operator.call("status")["pid"] == server.pid
    text = (server.data / "audit.jsonl").read_text()
    assert not any(secret in text for secret in SECRETS)
    return [json.loads(line) for line in text.splitlines()]


def test_secrets_are_not_shown_by_any_answer(api: Api, sink: WebSink, server: ServerProcess) -> None:
    api.put("/alerts/receivers/ops", hook(sink, rules=["nothing"]))
    answers = [api.get("/alerts/receivers"), api.get("/alerts/receivers/ops"), api.get("/definitions")]
    with connect(str(server.data)) as operator:
        answers += [operator.call("alerts.receivers"), operator.call("definitions.export", section="alert_receivers")]
    assert not any(secret in str(answer) for answer in answers for secret in SECRETS)
    api.delete("/alerts/receivers/ops")


def test_everybody_sees_the_alerts_of_his_virtual_hosts(api: Api, server: ServerProcess) -> None:
    api.put("/alerts/rules/both", few(vhost="*"))
    fill(api, "shop")
    fill(api, "lab")
    wait_until(lambda: len(firing(api, "both")) == 2)
    seen = {name: {row["vhost"] for row in firing(as_user(server, name), "both")} for name in ("clerk", "watcher")}
    assert seen == {"clerk": {"shop"}, "watcher": {"shop", "lab"}}
    told = {row["vhost"] for row in as_user(server, "clerk").get("/alerts/history") if "vhost" in row}
    assert told == {"shop"}
    for vhost in ("shop", "lab"):
        api.delete(f"/queues/{vhost}/orders/contents")
    api.delete("/alerts/rules/both")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/alerts", {"clerk", "watcher", "maker"}),
        ("GET", "/alerts/rules", {"clerk", "watcher", "maker"}),
        ("PUT", "/alerts/rules/mine", set()),
        ("DELETE", "/alerts/rules/mine", set()),
        ("POST", "/alerts/silences", {"maker"}),
        ("DELETE", "/alerts/silences/none", {"maker"}),
        ("GET", "/alerts/receivers", {"watcher"}),
        ("PUT", "/alerts/receivers/mine", set()),
        ("DELETE", "/alerts/receivers/mine", set()),
        ("POST", "/alerts/receivers/mine/test", set()),
    ],
)
def test_who_may_do_what(server: ServerProcess, method: str, path: str, allowed: set[str]) -> None:
    users = ("clerk", "watcher", "maker")
    body = None if method == "GET" else {"vhost": "shop"}
    statuses = {user: as_user(server, user).call(method, path, body).status for user in users}
    assert {user for user, status in statuses.items() if status != 401} == allowed


def test_policymakers_silence_what_is_in_their_virtual_hosts(api: Api, server: ServerProcess) -> None:
    maker = as_user(server, "maker")
    wanted = {"until_ms": int(time.time() * 1_000) + 60_000, "why": "we know"}
    for vhost in ("lab", "*", "sho?", "[s]hop", None, 5):
        assert maker.call("POST", "/alerts/silences", {**wanted, "vhost": vhost}).status == 401
    mine = maker.post("/alerts/silences", {**wanted, "vhost": "shop"})
    others = [api.post("/alerts/silences", {**wanted, "vhost": vhost}) for vhost in ("lab", "*")]
    assert mine["by"] == "maker"
    seen = {row["vhost"] for row in maker.get("/alerts/silences")}
    assert seen == {"shop", "*"}
    assert [maker.call("DELETE", f"/alerts/silences/{row['name']}").status for row in others] == [401, 401]
    maker.delete(f"/alerts/silences/{mine['name']}")
    for row in others:
        api.delete(f"/alerts/silences/{row['name']}")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("/alerts/rules/mine", {"figure": "mood", "limit": 1}, "figure"),
        ("/alerts/rules/mine", {"figure": "waiting_max"}, "limit"),
        ("/alerts/receivers/mine", {"kind": "webhook", "url": "http://192.0.2.1/"}, "alerts_plain_remote"),
        ("/alerts/receivers/mine", {"kind": "webhook", "url": "https://x/", "name": "other", "colour": 1}, "colour"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(api: Api, path: str, body: dict[str, Any], says: str) -> None:
    status, answer, _ = api.call("PUT", path, body)
    assert status == 400
    assert says in answer["reason"]


def test_what_is_told_can_be_sent_back(api: Api, sink: WebSink) -> None:
    api.put("/alerts/receivers/ops", hook(sink, rules=["nothing"]))
    api.put("/alerts/receivers/ops", {**api.get("/alerts/receivers")[0], "repeat_s": 60})
    api.put("/alerts/rules/queue_depth", {**api.get("/alerts/rules?name=queue_depth")[0], "limit": 20_000})
    assert api.get("/alerts/receivers/ops")["repeat_s"] == 60
    assert api.get("/alerts/rules/queue_depth")["limit"] == 20_000
    api.post("/alerts/receivers/ops/test")
    assert sink.next().headers["Authorization"] == "Bearer sesame"
    api.delete("/alerts/receivers/ops")
    api.delete("/alerts/rules/queue_depth")


def test_too_much_of_the_history_is_refused(api: Api) -> None:
    assert api.call("GET", "/alerts/history?limit=1001").status == 400
    assert api.get("/alerts/history?limit=0") == []


def test_rules_and_receivers_are_in_files_of_definitions(api: Api, sink: WebSink) -> None:
    api.put("/alerts/rules/few", few(limit=1_000))
    api.put("/alerts/receivers/ops", hook(sink, rules=["nothing"]))
    given = api.get("/definitions")
    part = {name: given[name] for name in ("alert_rules", "alert_receivers")}
    assert [row["name"] for row in part["alert_rules"]] == ["few"]
    api.delete("/alerts/rules/few")
    part["alert_receivers"][0]["repeat_s"] = 60
    assert api.call("POST", "/definitions", part).status == 204
    assert api.get("/alerts/rules/few")["limit"] == 1_000
    # Its secrets are those that it had, since the file has none.
    assert api.get("/alerts/receivers/ops")["repeat_s"] == 60
    api.post("/alerts/receivers/ops/test")
    assert sink.next().headers["Authorization"] == "Bearer sesame"
    api.delete("/alerts/receivers/ops")
    status, body, _ = api.call("POST", "/definitions", part)
    assert status == 200
    assert "has no url" in body["skipped"][0]
    api.delete("/alerts/rules/few")


def test_a_restart_forgets_nothing_and_tells_nothing_twice(tmp_path: Path, sink: WebSink) -> None:
    with ServerProcess(tmp_path, "--alerts-every-s", "0.1") as server:
        api = Api(server.ports["http"])
        api.put("/queues/%2F/orders", {"durable": True})
        api.put("/alerts/receivers/ops", hook(sink, rules=["few"]))
        api.put("/alerts/rules/few", few(vhost="*"))
        fill(api, "%2F")
        assert sink.next().body["status"] == "firing"
        wait_until(lambda: any(row["event"] == "sent" for row in api.get("/alerts/history")))
        server.kill()
        server.start()
        api = Api(server.ports["http"])
        wait_until(lambda: [row for row in firing(api, "few") if row["value"] == 3])
        api.delete("/queues/%2F/orders/contents")
        assert sink.next().body["status"] == "resolved"
        assert sink.posts.empty()
        events = [row["event"] for row in reversed(api.get("/alerts/history"))]
        assert [event for event in events if event in ("firing", "resolved")] == ["firing", "resolved"]
